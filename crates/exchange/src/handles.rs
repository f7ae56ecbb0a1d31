//! What the machine holds and passes on without knowing it.

/// The types of a driver.
pub trait Handles {
    /// A stored response; a clone is another handle to the same one.
    type Stored: Clone;
    /// The right and the duty to fetch a response. Dropping it hands both to the next request that waits.
    type Fill;
    /// A follower's place in a flight.
    type Wait;
    /// A response that another request is getting, readable as it comes.
    type Live;
    /// What Redis answered: what it had, and the right to write what replaces it.
    type Redis;
    /// The body of a request, opened and not yet sent.
    type Body;
    /// The response of a service.
    type Fetched;
    /// What stores a response while it is passed on.
    type Recorder;
    /// Why a response is not stored.
    type Unstored;
    /// Why the request failed, in the driver's words.
    type Failure;
    /// Why the request went past what is stored (RFC 9211 §2.2, `fwd`).
    type Why: Copy;
}

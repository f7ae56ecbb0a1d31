//! Vectors that are used again.

use alloc::vec::Vec;
use core::fmt::Debug;

use crate::value::Value;

/// Where the decoder gets emptied vectors from for the elements of aggregates. Who has read a reply and keeps nothing
/// of its vectors may give them back there, so that replies of the same shape need nothing from the heap.
///
/// ```
/// use std::sync::Mutex;
///
/// use pilotlight_resp::{Spares, Value};
///
/// #[derive(Debug, Default)]
/// struct Kept(Mutex<Vec<Vec<Value>>>);
///
/// impl Spares for Kept {
///     fn items(&self) -> Option<Vec<Value>> {
///         self.0.lock().ok()?.pop()
///     }
///
///     fn pairs(&self) -> Option<Vec<(Value, Value)>> {
///         None
///     }
/// }
/// ```
pub trait Spares: Debug + Send + Sync {
    /// An empty vector for the elements of an array, a set or a push.
    fn items(&self) -> Option<Vec<Value>>;
    /// An empty vector for the pairs of a map or of attributes.
    fn pairs(&self) -> Option<Vec<(Value, Value)>>;
}

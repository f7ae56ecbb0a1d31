package pilotlight;

/** Answers requests, several at a time, on threads of the SDK. */
@FunctionalInterface
public interface Handler {
    /**
     * Answers one request; the answer ends when this returns.
     * @throws Reset to end the exchange without an answer; anything else is printed, and the client gets a 502
     */
    void handle(Request request, Response response) throws Exception;
}

/** A row, as it is stored and answered. */
record User(long id, String name, String email, String bio, String createdAt) {
    /** A row without what the database adds. */
    record New(String name, String email, String bio) {}

    /** A part of all users. */
    record Page(int page, int limit, java.util.List<User> data) {}
}

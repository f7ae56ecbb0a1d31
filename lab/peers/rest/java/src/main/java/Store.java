import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.WorkerExecutor;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import org.sqlite.SQLiteConfig;

/** Users in SQLite. Reads run on a pool, each thread with a connection of its own; writes queue for one thread, each its own transaction. */
final class Store {
    private static final String COLUMNS = "id, name, email, bio, created_at";
    private static final int BUSY_MS = 5000;

    private final ThreadLocal<Statements> statements;
    private final WorkerExecutor readers;
    private final WorkerExecutor writer;

    Store(Vertx vertx, String path, int readerThreads) {
        statements = ThreadLocal.withInitial(() -> Statements.open(path));
        readers = vertx.createSharedWorkerExecutor("readers", readerThreads);
        writer = vertx.createSharedWorkerExecutor("writer", 1);
    }

    /** Null: there is no such user. */
    Future<User> one(long id) {
        return readers.executeBlocking(() -> {
            PreparedStatement select = statements.get().one;
            select.setLong(1, id);
            return first(select);
        }, false);
    }

    Future<List<User>> page(int page, int limit) {
        return readers.executeBlocking(() -> {
            PreparedStatement select = statements.get().page;
            select.setInt(1, limit);
            select.setLong(2, (page - 1L) * limit);
            return all(select);
        }, false);
    }

    Future<User> create(User.New user) {
        return writer.executeBlocking(() -> {
            PreparedStatement insert = statements.get().create;
            bind(insert, user);
            return first(insert);
        }, false);
    }

    /** Null: there is no such user. */
    Future<User> replace(long id, User.New user) {
        return writer.executeBlocking(() -> {
            PreparedStatement update = statements.get().replace;
            bind(update, user);
            update.setLong(4, id);
            return first(update);
        }, false);
    }

    /** Whether there was one. */
    Future<Boolean> delete(long id) {
        return writer.executeBlocking(() -> {
            PreparedStatement delete = statements.get().delete;
            delete.setLong(1, id);
            return delete.executeUpdate() > 0;
        }, false);
    }

    private static void bind(PreparedStatement statement, User.New user) throws SQLException {
        statement.setString(1, user.name());
        statement.setString(2, user.email());
        statement.setString(3, user.bio());
    }

    private static User first(PreparedStatement statement) throws SQLException {
        List<User> users = all(statement);
        return users.isEmpty() ? null : users.get(0);
    }

    /** To the last row, which is where SQLite commits what a statement has written. */
    private static List<User> all(PreparedStatement statement) throws SQLException {
        List<User> users = new ArrayList<>();
        try (ResultSet rows = statement.executeQuery()) {
            while (rows.next()) {
                users.add(new User(rows.getLong(1), rows.getString(2), rows.getString(3), rows.getString(4), rows.getString(5)));
            }
        }
        return users;
    }

    /** A connection's statements, prepared once. */
    private record Statements(PreparedStatement one, PreparedStatement page, PreparedStatement create, PreparedStatement replace, PreparedStatement delete) {
        static Statements open(String path) {
            SQLiteConfig config = new SQLiteConfig();
            config.setJournalMode(SQLiteConfig.JournalMode.WAL);
            config.setSynchronous(SQLiteConfig.SynchronousMode.FULL);
            config.setBusyTimeout(BUSY_MS);
            try {
                Connection connection = config.createConnection("jdbc:sqlite:" + path);
                return new Statements(
                        connection.prepareStatement("SELECT " + COLUMNS + " FROM users WHERE id = ?"),
                        connection.prepareStatement("SELECT " + COLUMNS + " FROM users ORDER BY id LIMIT ? OFFSET ?"),
                        connection.prepareStatement("INSERT INTO users (name, email, bio) VALUES (?, ?, ?) RETURNING " + COLUMNS),
                        connection.prepareStatement("UPDATE users SET name = ?, email = ?, bio = ? WHERE id = ? RETURNING " + COLUMNS),
                        connection.prepareStatement("DELETE FROM users WHERE id = ?"));
            } catch (SQLException failure) {
                throw new IllegalStateException("the database " + path + " cannot be opened", failure);
            }
        }
    }
}

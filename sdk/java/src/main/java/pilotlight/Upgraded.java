package pilotlight;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.concurrent.atomic.AtomicReference;

/** A connection that has switched to another protocol (P-41): bytes both ways, until the handler returns. */
public final class Upgraded implements AutoCloseable {
    private final Link link;
    private final SocketChannel channel;
    private final AtomicReference<Runnable> onDrain = new AtomicReference<>();
    private ByteBuffer early = ByteBuffer.allocate(0); // what had been read with frames

    Upgraded(Link link) throws Reset {
        this.link = link;
        this.channel = link.channel;
        link.service.enter(this, link);
    }

    void begin() {
        early = ByteBuffer.wrap(link.leave());
    }

    /** What the client sends; ends when it has ended that direction. */
    public InputStream input() {
        return new InputStream() {
            @Override
            public int read(byte[] to, int from, int length) throws IOException {
                if (!early.hasRemaining()) return channel.read(ByteBuffer.wrap(to, from, length));
                int count = Math.min(length, early.remaining());
                early.get(to, from, count);
                return count;
            }

            @Override
            public int read() throws IOException {
                byte[] one = new byte[1];
                return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
            }
        };
    }

    /** What the client gets, without a buffer in between; closing it ends this direction only. */
    public OutputStream output() {
        return new OutputStream() {
            @Override
            public void write(byte[] bytes, int from, int length) throws IOException {
                for (ByteBuffer left = ByteBuffer.wrap(bytes, from, length); left.hasRemaining();) channel.write(left);
            }

            @Override
            public void write(int one) throws IOException {
                write(new byte[] {(byte) one}, 0, 1);
            }

            @Override
            public void close() throws IOException {
                channel.shutdownOutput();
            }
        };
    }

    /** Has `action` run once when the instance is to end (P-43): end the protocol by its own means then. */
    public void onDrain(Runnable action) {
        onDrain.set(action);
        if (link.service.draining) drain();
    }

    void drain() {
        Runnable action = onDrain.getAndSet(null);
        if (action != null) action.run();
    }

    /** Ends both directions. */
    @Override
    public void close() {
        link.service.upgraded.remove(this);
        try {
            channel.close();
        } catch (IOException error) {
            // it has ended already
        }
    }
}

<?php

declare(strict_types=1);

namespace Pilotlight;

/** A connection that has switched to another protocol (P-41): bytes both ways. Waiting lets other exchanges go on. */
final class Connection
{
    /** @internal */
    public function __construct(private readonly Request $request, private readonly Link $link)
    {
    }

    /** What has come, `$size` bytes at most; empty when the client has ended its direction. Throws Cancelled at an error. */
    public function read(int $size = 65_536): string
    {
        return $this->request->readSome($size);
    }

    /** Sends these bytes; returns when the socket has taken them. */
    public function write(string $bytes): void
    {
        $this->request->raiseIfOver();
        $this->link->send($bytes);
        $this->request->pause();
        $this->request->raiseIfOver();
    }

    /** Ends this direction. */
    public function closeWrite(): void
    {
        $this->link->isClosed || @stream_socket_shutdown($this->link->stream, STREAM_SHUT_WR);
    }

    /** Ends both directions; so does the end of the handler. */
    public function close(): void
    {
        $this->link->close();
    }
}

using System;
using System.IO;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Pilotlight
{
    /// <summary>The answer to a request; it ends with the handler's task. If it fits one frame by then (64 KiB with
    /// its head)
    /// it leaves in one, together with others; a flush of the body, or more of it, makes it a stream.</summary>
    public sealed class Response
    {
        private readonly Exchange exchange;
        private Headers trailers;
        private ResponseBody body;
        private int status = 200;

        internal Response(Exchange exchange)
        {
            this.exchange = exchange;
        }

        internal bool HasTrailers => trailers != null;

        /// <summary>Whether a frame of it has been sent: status and headers change nothing any more.</summary>
        public bool HasBegun { get; internal set; }

        /// <summary>200 if nobody sets it.</summary>
        public int Status
        {
            get => status;
            set => status = value >= 200 && value <= 999 ? value : throw new ArgumentOutOfRangeException(nameof(value));
        }

        /// <summary>The header fields, until the first flush of the body.</summary>
        public Headers Headers { get; } = new Headers();

        /// <summary>The trailer fields; an answer that has any is a stream. Clients get those that `trailer`
        /// names.</summary>
        public Headers Trailers => trailers = trailers ?? new Headers();

        /// <summary>The body. Writes are cancelled when the client has gone.</summary>
        public ResponseBody Body => body = body ?? new ResponseBody(exchange);

        /// <summary>Sends an informational answer (103 and the like) ahead: names and values of its fields.</summary>
        public async Task InformAsync(int status, params string[] fields)
        {
            if (status < 102 || status > 199 || HasBegun) throw new ArgumentException("too late, or not 102 to 199");
            var head = new Headers();
            for (int i = 0; i < fields.Length; i += 2) head.Add(fields[i], fields[i + 1]);
            await exchange.Stream().SendAsync(Wire.Info, 0, exchange.Id, status, head, Wire.Empty, 0, 0)
                .ConfigureAwait(false);
        }

        /// <summary>Writes all of the body, as UTF-8.</summary>
        public Task SendAsync(string text) => SendAsync(Encoding.UTF8.GetBytes(text));

        /// <summary>Writes all of the body, and ends the answer.</summary>
        public Task SendAsync(byte[] bytes) => body == null ? EndAsync(bytes, bytes.Length) : Body.SendAsync(bytes);

        internal Task EndAsync() => body == null ? EndAsync(Wire.Empty, 0) : Body.EndAsync();

        /// <summary>Ends the answer: in one frame if it fits, and nothing of it was sent.</summary>
        internal Task EndAsync(byte[] bytes, int length)
        {
            if (exchange.Done) return Task.CompletedTask;
            if (exchange.Reset != 0) throw new OperationCanceledException(exchange.Aborted);
            if (HasBegun || HasTrailers || Headers.Bytes + length + 8 > Wire.MinMaxFrame) return EndStream(bytes, length);
            exchange.Finish();
            exchange.Out.Append(Wire.Response, Wire.End, exchange.Id, status, Headers, bytes, 0, length);
            exchange.Sent();
            return Task.CompletedTask;
        }

        private async Task EndStream(byte[] bytes, int length)
        {
            if (!HasTrailers) await Push(bytes, 0, length, Wire.End).ConfigureAwait(false);
            else
            {
                if (!HasBegun || length > 0) await Push(bytes, 0, length, 0).ConfigureAwait(false);
                if (trailers.Bytes > Wire.MinMaxFrame) throw new IOException("trailers beyond max_frame");
                exchange.Finish();
                await exchange.Out.SendAsync(Wire.Trailers, Wire.End, exchange.Id, 0, trailers, Wire.Empty, 0, 0)
                    .ConfigureAwait(false);
            }
            exchange.Sent();
        }

        /// <summary>Sends a part of a stream, the head before it, in as many frames as it takes.</summary>
        internal async Task Push(byte[] bytes, int from, int length, int flags)
        {
            if (Headers.Bytes + 8 > Wire.MinMaxFrame) throw new IOException("headers beyond max_frame");
            Link link = exchange.Stream();
            do
            {
                if (exchange.Reset != 0) throw new OperationCanceledException(exchange.Aborted);
                int count = Math.Min(length, HasBegun ? link.MaxFrame : Wire.MinMaxFrame - Headers.Bytes - 8);
                bool last = count == length;
                if (last && flags != 0) exchange.Finish();
                int type = HasBegun ? Wire.Data : Wire.Response;
                Headers head = HasBegun ? null : Headers;
                HasBegun = true;
                await link.SendAsync(type, last ? flags : 0, exchange.Id, status, head, bytes, from, count)
                    .ConfigureAwait(false);
                from += count;
                length -= count;
            } while (length > 0);
        }
    }

    /// <summary>The body of an answer.</summary>
    public sealed class ResponseBody : Stream
    {
        private const int StreamBytes = 16384; // that a stream gathers between two flushes
        private readonly Exchange exchange;
        private byte[] buffer = new byte[512];
        private int size;

        internal ResponseBody(Exchange exchange)
        {
            this.exchange = exchange;
        }

        internal async Task SendAsync(byte[] bytes)
        {
            await WriteAsync(bytes, 0, bytes.Length).ConfigureAwait(false);
            await EndAsync().ConfigureAwait(false);
        }

        internal Task EndAsync() => exchange.Response.EndAsync(buffer, Taken());

        /// <inheritdoc/>
        public override Task WriteAsync(byte[] bytes, int from, int length, CancellationToken stop)
        {
            if (exchange.Reset != 0) throw new OperationCanceledException(exchange.Aborted);
            if (exchange.Done) throw new IOException("the answer has ended");
            Response response = exchange.Response;
            int room = response.HasBegun ? StreamBytes : Wire.MinMaxFrame - response.Headers.Bytes - 8;
            if (size + length > room) return Overflow(bytes, from, length);
            if (size + length > buffer.Length) Array.Resize(ref buffer, Math.Max(size + length, buffer.Length * 2));
            Buffer.BlockCopy(bytes, from, buffer, size, length);
            size += length;
            return Task.CompletedTask;
        }

        private async Task Overflow(byte[] bytes, int from, int length)
        {
            await exchange.Response.Push(buffer, 0, Taken(), 0).ConfigureAwait(false);
            if (length >= StreamBytes) await exchange.Response.Push(bytes, from, length, 0).ConfigureAwait(false);
            else await WriteAsync(bytes, from, length, CancellationToken.None).ConfigureAwait(false);
        }

        private int Taken()
        {
            int taken = size;
            size = 0;
            return taken;
        }

        /// <inheritdoc/>
        public override Task FlushAsync(CancellationToken stop) => exchange.Done || exchange.Response.HasBegun && size == 0
            ? Task.CompletedTask : exchange.Response.Push(buffer, 0, Taken(), 0);

        /// <inheritdoc/>
        public override void Write(byte[] bytes, int from, int length) =>
            WriteAsync(bytes, from, length, CancellationToken.None).GetAwaiter().GetResult();

        /// <inheritdoc/>
        public override void Flush() => FlushAsync(CancellationToken.None).GetAwaiter().GetResult();
        /// <inheritdoc/>
        public override bool CanRead => false;
        /// <inheritdoc/>
        public override bool CanSeek => false;
        /// <inheritdoc/>
        public override bool CanWrite => true;
        /// <inheritdoc/>
        public override long Length => throw new NotSupportedException();
        /// <inheritdoc/>
        public override long Position
        {
            get => throw new NotSupportedException();
            set => throw new NotSupportedException();
        }
        /// <inheritdoc/>
        public override int Read(byte[] to, int from, int length) => throw new NotSupportedException();
        /// <inheritdoc/>
        public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();
        /// <inheritdoc/>
        public override void SetLength(long value) => throw new NotSupportedException();
    }
}

using System;
using System.Collections.Generic;
using System.IO;
using System.Threading;
using System.Threading.Tasks;

namespace Pilotlight
{
    /// <summary>How much a log line matters.</summary>
    public enum Level { Error = 1, Warn, Info, Debug, Trace }

    /// <summary>What a client asks.</summary>
    public sealed class Request
    {
        private const int Texts = 7;
        private readonly Exchange exchange;
        private readonly byte[] head; // the strings, and what came of the body with them
        private readonly int headEnd, fieldsAt;
        private readonly long due; // 0: there is no deadline
        private Headers headers;

        internal Request(Exchange exchange, byte[] input, int from, int length)
        {
            this.exchange = exchange;
            headEnd = length < 8 ? -1 : Wire.U32(input, from);
            Wire.Check(headEnd >= 0 && headEnd <= length - 8, "P-8: head_length is larger than the payload");
            long left = (uint)Wire.U32(input, from + 4);
            due = left == 0 ? 0 : Exchange.NowMs + left;
            head = new byte[length - 8];
            Buffer.BlockCopy(input, from + 8, head, 0, head.Length);
            Wire.Strings(head, 0, headEnd, Texts);
            int at = 0;
            Method = Headers.Text(head, ref at);
            Scheme = Headers.Text(head, ref at);
            Authority = Headers.Text(head, ref at);
            Target = Headers.Text(head, ref at);
            Protocol = Headers.Text(head, ref at);
            Peer = Headers.Text(head, ref at);
            Id = Headers.Text(head, ref at);
            fieldsAt = at;
            Body = new RequestBody(exchange, head, headEnd);
        }

        /// <summary>For example GET.</summary>
        public string Method { get; }

        /// <summary>http or https.</summary>
        public string Scheme { get; }

        /// <summary>What the client has said in `host`.</summary>
        public string Authority { get; }

        /// <summary>Path and query as the client has sent them.</summary>
        public string Target { get; }

        /// <summary>For example HTTP/1.1.</summary>
        public string Protocol { get; }

        /// <summary>Address and port of the client, or empty.</summary>
        public string Peer { get; }

        /// <summary>The gateway's id of this request.</summary>
        public string Id { get; }

        /// <summary>The part of the target before `?`, not decoded.</summary>
        public string Path => Target.Split('?')[0];

        /// <summary>The part of the target behind `?`, not decoded; empty if there is none.</summary>
        public string Query => Target.Substring(Math.Min(Path.Length + 1, Target.Length));

        /// <summary>The header fields; `host` is not among them, see Authority.</summary>
        public Headers Headers => headers = headers ?? new Headers(head, fieldsAt, headEnd);

        /// <summary>The trailer fields: none until the body has been read to its end.</summary>
        public Headers Trailers { get; internal set; } = new Headers();

        /// <summary>The body as it comes; reads are cancelled when the client has gone.</summary>
        public RequestBody Body { get; }

        /// <summary>Cancelled when the client has gone, or the deadline is over.</summary>
        public CancellationToken Aborted => exchange.Aborted;

        /// <summary>The time left for the answer, or null if there is no limit.</summary>
        public TimeSpan? TimeLeft =>
            due == 0 ? (TimeSpan?)null : TimeSpan.FromMilliseconds(Math.Max(0, due - Exchange.NowMs));

        /// <summary>The protocols, in lower case, that the client may switch to with this request.</summary>
        public IReadOnlyList<string> Offers
        {
            get
            {
                var found = new List<string>();
                if (!exchange.Offered) return found;
                foreach (string value in Headers.All("upgrade"))
                {
                    foreach (string one in value.Split(',')) if (one.Trim() != "") found.Add(one.Trim().ToLowerInvariant());
                }
                return found;
            }
        }

        /// <summary>Answers 101: the connection is `protocol`'s, one of Offers, until the handler's task
        /// ends.</summary>
        public Task<Upgraded> UpgradeAsync(string protocol, params string[] fields) => exchange.Switch(protocol, fields);

        /// <summary>Writes a log line that belongs to this request.</summary>
        public void Log(Level level, string text)
        {
            bool switched = exchange.Switched != null; // P-41: there are no frames on its connection
            Link link = switched ? exchange.Link.Service.AnyShared() : exchange.Link;
            byte[] payload = Wire.Payload(switched ? $"[{Id}] {text}" : text, (int)level << 24);
            link?.Append(Wire.Log, 0, switched ? 0 : exchange.Id, 0, null, payload, 3, payload.Length - 3);
            link?.TryFlush();
        }
    }

    /// <summary>The body of a request. One read at a time.</summary>
    public sealed class RequestBody : Stream
    {
        private readonly Exchange exchange;
        private readonly object gate = new object();
        private byte[] piece; // what is there: from at to end
        private int at, end;
        private TaskCompletionSource<bool> waiting;

        internal RequestBody(Exchange exchange, byte[] head, int from)
        {
            this.exchange = exchange;
            piece = head;
            at = from;
            end = head.Length;
        }

        /// <summary>A piece in the connection's buffer. Returns when the handler has it, or wants no more
        /// (P-22).</summary>
        internal void Deliver(byte[] input, int from, int length, bool last)
        {
            lock (gate)
            {
                while (at < end && !exchange.Done && exchange.Reset == 0) Monitor.Wait(gate);
                if (exchange.Done) return; // P-21
                piece = input;
                at = from;
                end = from + length;
                if (last)
                {
                    piece = new byte[length];
                    Buffer.BlockCopy(input, from, piece, at = 0, end = length);
                    exchange.Ended = true;
                }
                Wake();
                while (!last && at < end && !exchange.Done && exchange.Reset == 0) Monitor.Wait(gate);
            }
        }

        /// <summary>Something has changed: the exchange has ended, or the direction.</summary>
        internal void Wake()
        {
            lock (gate)
            {
                Monitor.PulseAll(gate);
                waiting?.TrySetResult(true);
                waiting = null;
            }
        }

        /// <inheritdoc/>
        public override async Task<int> ReadAsync(byte[] to, int from, int length, CancellationToken stop)
        {
            while (true)
            {
                Task more;
                lock (gate)
                {
                    if (exchange.Reset != 0) throw new OperationCanceledException(exchange.Aborted);
                    if (at < end || exchange.Ended || exchange.Done || length == 0)
                    {
                        int count = exchange.Done ? 0 : Math.Min(length, end - at);
                        Buffer.BlockCopy(piece, at, to, from, count);
                        at += count;
                        if (at == end) Monitor.PulseAll(gate);
                        return count;
                    }
                    waiting = waiting ?? new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
                    more = waiting.Task;
                }
                using (stop.Register(Wake)) await more.ConfigureAwait(false);
                stop.ThrowIfCancellationRequested();
            }
        }

        /// <inheritdoc/>
        public override int Read(byte[] to, int from, int length) =>
            ReadAsync(to, from, length, CancellationToken.None).GetAwaiter().GetResult();

        /// <inheritdoc/>
        public override bool CanRead => true;
        /// <inheritdoc/>
        public override bool CanSeek => false;
        /// <inheritdoc/>
        public override bool CanWrite => false;
        /// <inheritdoc/>
        public override long Length => throw new NotSupportedException();
        /// <inheritdoc/>
        public override long Position
        {
            get => throw new NotSupportedException();
            set => throw new NotSupportedException();
        }
        /// <inheritdoc/>
        public override void Flush() { }
        /// <inheritdoc/>
        public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();
        /// <inheritdoc/>
        public override void SetLength(long value) => throw new NotSupportedException();
        /// <inheritdoc/>
        public override void Write(byte[] bytes, int from, int length) => throw new NotSupportedException();
    }
}

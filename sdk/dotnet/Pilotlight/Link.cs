using System;
using System.Collections.Concurrent;
using System.Diagnostics;
using System.IO;
using System.Net.Sockets;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Pilotlight
{
    /// <summary>One connection to the gateway. The thread that leads it reads a batch, runs the handlers of its
    /// requests until
    /// each waits for something, and writes what is finished at once (P-18). When a handler blocks, another thread
    /// leads.
    /// Invariants: only the leader parses; no memory is sized by a length that has not been checked.</summary>
    internal sealed class Link
    {
        private const int ReadBytes = 8192, SharedReadBytes = 65536, FlushBytes = 65536, KeptBytes = 262144;
        private const int LastWordsMs = 1000;
        // .NET tries so by itself. Mono has another thread send each frame, and one frame was once not sent.
        private static readonly bool SendsAtOnce = Type.GetType("Mono.Runtime") != null;
        private const int QuickHandlers = 256, QuickUs = 200; // so many in a row, and the leader runs handlers again

        internal readonly Service Service;
        internal readonly string Kind;
        internal readonly Socket Socket;
        /// <summary>Exchanges that expect or owe frames here; not the one that the leader is about.</summary>
        internal readonly ConcurrentDictionary<int, Exchange> Open = new ConcurrentDictionary<int, Exchange>(1, 7);
        internal volatile int Worker, MaxFrame = Wire.MinMaxFrame;
        internal volatile bool Closed;
        private int minor, closing;
        private bool welcomed;

        private byte[] input;
        private int at, end; // of what was read and not handled
        private Exchange arrived; // a request that was read, and whose handler is next

        private readonly SemaphoreSlim writing = new SemaphoreSlim(1);
        private readonly object queue = new object();
        private byte[] output = new byte[1024], spare = new byte[1024];
        private volatile int size; // of what is in `output`
        private bool over; // nothing more is sent

        private long current; // whose handler the leader runs: its turn; 0: none; negative: nobody else may lead
        private long turns, seen, seenTurns;
        private volatile Exchange running;
        private volatile bool dispatching; // handlers of this shared connection block: the pool runs them
        private volatile int quick;

        internal Link(Service service, string kind, int worker)
        {
            Service = service;
            Kind = kind;
            Worker = worker;
            input = new byte[IsShared ? SharedReadBytes : ReadBytes];
            Socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
            Socket.Connect(new UnixDomainSocketEndPoint(service.Path));
            string hello = $"PIPE/1\ntoken={service.Token}\nkind={kind}\nsdk=pilotlight-dotnet/0.1.0\npid={service.Pid}\n"
                + $"minor=1\nmax_own={service.Options.MaxOwn}\n"; // P-1, P-37
            if (IsShared) hello += $"exchanges={service.Options.Exchanges}\n";
            if (worker >= 0) hello += $"worker={worker}\n";
            Append(Wire.Hello, 0, 0, Encoding.ASCII.GetBytes(hello));
        }

        internal bool IsShared => (object)Kind == (object)"shared";

        private bool IsOwn => (object)Kind == (object)"own";

        internal bool IsFlushed => Closed || size == 0 && writing.CurrentCount > 0;

        internal bool IsWatchable => Interlocked.Read(ref current) > 0;

        internal void Forget(Exchange exchange)
        {
            bool known = Open.TryGetValue(exchange.Id, out Exchange found) && found == exchange;
            if (known) Open.TryRemove(exchange.Id, out found);
        }

        /// <summary>Leads until another thread does, or the connection has ended.</summary>
        internal void Lead()
        {
            try
            {
                Flush();
                while (Perform(Next())) if (size > FlushBytes) Flush();
            }
            catch (Exception error)
            {
                Close(error);
            }
        }

        /// <summary>The next request; all other frames are handled here.</summary>
        private Exchange Next()
        {
            while (arrived == null) if (!Frame()) Fill();
            Exchange found = arrived;
            arrived = null;
            return found;
        }

        /// <summary>Runs a handler until it waits; whether this thread leads still.</summary>
        private bool Perform(Exchange exchange)
        {
            // a handler that blocks for its body must not hold this thread
            if (IsShared ? dispatching : !exchange.Ended)
            {
                if (IsShared) Open[exchange.Id] = exchange;
                ThreadPool.UnsafeQueueUserWorkItem(one => ((Exchange)one).RunApart(), exchange);
                return true;
            }
            long turn = ++turns;
            exchange.Turn = turn;
            exchange.Led = true;
            running = exchange;
            Interlocked.Exchange(ref current, exchange.Offered ? -turn : turn);
            Service.Watch.Wake();
            Task task = exchange.Run();
            exchange.Led = false;
            long before = exchange.Offered ? -turn : turn;
            bool leads = Interlocked.CompareExchange(ref current, 0, before) == before;
            if (!leads) TryFlush();
            else if (!task.IsCompleted && IsShared) Keep(exchange);
            exchange.Settled?.Wait(); // P-39: what comes next may be of another protocol
            return leads && exchange.Switched == null;
        }

        private void Keep(Exchange exchange)
        {
            Open[exchange.Id] = exchange;
            if (exchange.Done) Forget(exchange);
        }

        /// <summary>The handler of this turn blocks, or becomes a stream: another thread leads from now on.</summary>
        internal void HandOver(long turn)
        {
            Exchange exchange = running;
            if (turn <= 0 || Interlocked.CompareExchange(ref current, 0, turn) != turn) return;
            exchange.Led = false;
            Keep(exchange);
            Service.Lead(this);
        }

        /// <summary>Looks whether the leader is in the same handler as the last time; whether anything has
        /// moved.</summary>
        internal bool Look()
        {
            long now = Interlocked.Read(ref current);
            if (now > 0 && now == seen)
            {
                dispatching = true;
                quick = 0;
                HandOver(now);
            }
            bool moved = now > 0 || turns != seenTurns;
            seen = now;
            seenTurns = turns;
            return moved;
        }

        /// <summary>A handler has held a thread of the pool for so long.</summary>
        internal void Took(long us)
        {
            quick = us < QuickUs ? quick + 1 : 0;
            if (quick >= QuickHandlers) dispatching = false;
        }

        /// <summary>The request direction has ended.</summary>
        private void Ended(Exchange exchange)
        {
            exchange.Ended = true;
            exchange.Request.Body.Wake();
            if (exchange.Done) Forget(exchange); // P-19, P-21
        }

        private void Fill()
        {
            Flush();
            int left = end - at, need = Wire.HeaderBytes + (left < Wire.HeaderBytes ? 0 : Wire.U32(input, at));
            if (left == 0 || at + need > input.Length)
            {
                byte[] to = need > input.Length ? new byte[need + ReadBytes] : input;
                Buffer.BlockCopy(input, at, to, 0, left);
                input = to;
                at = 0;
                end = left;
            }
            int count = Socket.Receive(input, end, input.Length - end, SocketFlags.None);
            if (count <= 0) throw new EndOfStreamException();
            end += count;
        }

        /// <summary>Handles the next frame, if it is whole.</summary>
        private bool Frame()
        {
            if (end - at < Wire.HeaderBytes) return false;
            int length = Wire.U32(input, at), type = input[at + 4], flags = input[at + 5], id = Wire.U16(input, at + 6);
            Wire.Check(length >= 0 && length <= MaxFrame, "P-6: a payload longer than max_frame");
            bool known = type >= Wire.Hello && type <= Wire.Log;
            Wire.Check(known || (flags & Wire.Ignorable) != 0, "P-7: a frame of an unknown type without IGNORABLE");
            if (end - at - Wire.HeaderBytes < length) return false;
            int from = at + Wire.HeaderBytes;
            at = from + length;
            if (!known) return true;
            bool refusal = type == Wire.Reset && id == 0;
            Wire.Check(welcomed != (type == Wire.Welcome) || refusal, "P-3: WELCOME is the first frame, once");
            bool last = (flags & Wire.End) != 0, exchanges = IsShared || IsOwn;
            if (type == Wire.Welcome) OnWelcome(from, length);
            else if (type == Wire.Reset && length >= 8) OnReset(id, from, length);
            else if (type == Wire.Request && exchanges) OnRequest(flags, id, from, length);
            else if (type == Wire.Data && IsOwn) OnData(OfBody(id), last, from, length);
            else if (type == Wire.Trailers && IsOwn) OnTrailers(OfBody(id), from);
            // P-35
            else if (type == Wire.Ping && exchanges && length == 8) Append(Wire.Pong, 0, 0, 0, null, input, from, 8);
            else if (type == Wire.Drain && IsShared) Service.Drain(true);
            else if (type == Wire.More && IsShared && length >= 8)
            {
                Service.More(Wire.U16(input, from), Wire.U16(input, from + 2), Wire.U32(input, from + 4));
            }
            else Wire.Check(type == Wire.Pong,
                "P-11: a frame that does not come on this kind of connection (P-25), or is cut");
            return true;
        }

        private void OnWelcome(int from, int length)
        {
            Wire.Check(length <= Wire.MaxWelcome, "P-6: a WELCOME of more than 4,096 bytes");
            string[] lines = Encoding.UTF8.GetString(input, from, length).Split('\n');
            Wire.Check(lines[0] == "PIPE/1", "P-12: WELCOME is not of PIPE/1");
            int worker = -1, maxFrame = 0;
            foreach (string line in lines)
            {
                string[] pair = line.Split(new[] { '=' }, 2);
                if (pair.Length < 2 || !int.TryParse(pair[1], out int number)) continue;
                if (pair[0] == "worker") worker = number;
                else if (pair[0] == "max_frame") maxFrame = number;
                else if (pair[0] == "minor") minor = number;
            }
            Wire.Check(worker >= 0 && maxFrame >= Wire.MinMaxFrame,
                "P-3: WELCOME names no worker, or a small max_frame");
            Worker = worker;
            MaxFrame = maxFrame;
            welcomed = true;
        }

        private void OnRequest(int flags, int id, int from, int length)
        {
            bool ended = (flags & Wire.End) != 0, offered = (flags & Wire.Upgrade) != 0 && minor > 0 && IsOwn;
            Wire.Check(IsShared || Open.IsEmpty, "P-19: a REQUEST before the exchange before it has ended");
            Wire.Check(!IsShared || ended, "P-14: a REQUEST without END on a shared connection");
            Wire.Check(id != 0 && !Open.ContainsKey(id), "P-15: an exchange id that is 0 or open");
            Wire.Check(ended || !offered, "P-38: a REQUEST with UPGRADE and without END");
            bool fits = !dispatching || Open.Count < Service.Options.Exchanges;
            Wire.Check(fits, "P-14: more exchanges at once than HELLO allows");
            var exchange = new Exchange(this, id, input, from, length, ended, offered);
            if (!IsShared) Open[id] = exchange;
            Interlocked.Increment(ref Service.Open);
            if (Service.Draining) exchange.Refuse(); // P-31
            else arrived = exchange;
        }

        private Exchange OfBody(int id)
        {
            bool found = Open.TryGetValue(id, out Exchange exchange) && !exchange.Ended;
            Wire.Check(found, "P-11: a body for an exchange that is not open, or beyond its END (P-20)");
            return exchange;
        }

        private void OnData(Exchange exchange, bool last, int from, int length)
        {
            exchange.Request.Body.Deliver(input, from, length, last);
            if (last) Ended(exchange);
        }

        private void OnTrailers(Exchange exchange, int from)
        {
            Wire.Strings(input, from, at, 0);
            exchange.Request.Trailers = new Headers(input, from, at);
            Ended(exchange);
        }

        private void OnReset(int id, int from, int length)
        {
            string text = Encoding.UTF8.GetString(input, from + 8, length - 8);
            if (id == 0) throw new RefusalException("the gateway says: " + text);
            Wire.Check(IsShared || IsOwn, "P-25: a RESET for an exchange on an answer connection");
            if (!Open.TryGetValue(id, out Exchange exchange)) return; // P-26: it has ended
            exchange.Cancel(Wire.U16(input, from));
            Ended(exchange);
        }

        /// <summary>Queues a frame, which leaves with others.</summary>
        internal void Append(int type, int flags, int id, byte[] payload) =>
            Append(type, flags, id, 0, null, payload, 0, payload.Length);

        /// <summary>As above, of `head`, if there is one, and of a body.</summary>
        internal void Append(int type, int flags, int id, int status, Headers head, byte[] bytes, int from, int length)
        {
            lock (queue)
            {
                if (over) return;
                bool hasStatus = type == Wire.Response || type == Wire.Info;
                int block = head == null ? 0 : head.Bytes, place = size + Wire.HeaderBytes;
                int body = place + block + (hasStatus ? 8 : 0);
                if (body + length > output.Length) Array.Resize(ref output, Math.Max(body + length, output.Length * 2));
                Wire.Put(output, size, body - place + length);
                Wire.Put(output, size + 4, type | flags << 8 | id << 16);
                if (hasStatus)
                {
                    Wire.Put(output, place, block);
                    Wire.Put(output, place + 4, status);
                }
                head?.Write(output, body - block);
                Buffer.BlockCopy(bytes, from, output, body, length);
                size = body + length;
            }
        }

        /// <summary>Sends a frame of a stream, behind what is queued; done when the system has all of it
        /// (P-22).</summary>
        internal async Task SendAsync(int type, int flags, int id, int status, Headers head, byte[] bytes, int from,
            int length)
        {
            await writing.WaitAsync().ConfigureAwait(false);
            try
            {
                Append(type, flags, id, status, head, bytes, from, length);
                ArraySegment<byte> left = Take();
                while (left.Count > 0)
                {
                    int sent = SendsAtOnce && HasRoomFor(left.Count)
                        ? Socket.Send(left.Array, left.Offset, left.Count, SocketFlags.None)
                        : await Socket.SendAsync(left, SocketFlags.None).ConfigureAwait(false);
                    left = new ArraySegment<byte>(left.Array, left.Offset + sent, left.Count - sent);
                }
            }
            catch (Exception error) when (error is SocketException || error is ObjectDisposedException)
            {
                Close(error);
                CancelAll(); // another thread may be about to: the handler is to know it before it goes on
                throw new OperationCanceledException("the client has gone");
            }
            finally
            {
                writing.Release();
            }
            TryFlush();
        }

        /// <summary>Whether the system takes so much without waiting: Linux calls a socket writable while three quarters
        /// of its buffer are free.</summary>
        private bool HasRoomFor(int bytes) => bytes <= FlushBytes + Wire.HeaderBytes
            && Socket.Poll(0, SelectMode.SelectWrite);

        /// <summary>Writes what is queued, or leaves it to the thread that does so already.</summary>
        internal void Flush()
        {
            while (size > 0 && writing.Wait(0))
            {
                try
                {
                    ArraySegment<byte> all = Take();
                    for (int sent = 0; sent < all.Count;)
                    {
                        sent += Socket.Send(all.Array, sent, all.Count - sent, SocketFlags.None);
                    }
                }
                finally
                {
                    writing.Release();
                }
            }
        }

        /// <summary>As Flush, where a failure ends the connection and nothing else.</summary>
        internal void TryFlush()
        {
            try
            {
                Flush();
            }
            catch (Exception error)
            {
                Close(error);
            }
        }

        private ArraySegment<byte> Take()
        {
            lock (queue)
            {
                var taken = new ArraySegment<byte>(output, 0, size);
                byte[] other = spare.Length > KeptBytes ? new byte[1024] : spare;
                spare = output;
                output = other;
                size = 0;
                return taken;
            }
        }

        /// <summary>Cancels the exchanges of a connection that has ended (P-34).</summary>
        private void CancelAll()
        {
            foreach (Exchange exchange in Open.Values)
            {
                exchange.Ended |= exchange.Link == this;
                exchange.Cancel(Wire.Cancelled);
                exchange.Request.Body.Wake();
            }
        }

        /// <summary>Ends the connection and its exchanges (P-34), and says why (P-10).</summary>
        internal void Close(Exception error)
        {
            if (Interlocked.Exchange(ref closing, 1) != 0) return;
            bool violation = error is ViolationException, ended = error is SocketException
                || error is ObjectDisposedException || error is EndOfStreamException;
            lock (queue)
            {
                if (violation) Append(Wire.Reset, 0, 0, Wire.Payload(error.Message, Wire.Protocol, 0));
                over = violation; // P-10: nothing follows, whatever handlers still write
            }
            try
            {
                if (violation && writing.Wait(LastWordsMs)) writing.Release(); // behind a frame that is being sent
                if (violation) Flush();
                Socket.Shutdown(SocketShutdown.Both);
            }
            catch (Exception late) when (late is SocketException || late is ObjectDisposedException)
            {
                // the gateway was quicker
            }
            Socket.Close();
            Closed = true;
            CancelAll();
            string text = violation || error is RefusalException ? error.Message : error.ToString();
            if (!ended) Console.Error.WriteLine($"pilotlight: the {Kind} connection has failed: {text}");
            Service.OnClosed(this, !ended);
        }

        /// <summary>The connection has left the protocol: what was read already belongs to the other one.</summary>
        internal ArraySegment<byte> Leave()
        {
            closing = 1;
            Closed = true;
            return new ArraySegment<byte>(input, at, end - at);
        }
    }
}

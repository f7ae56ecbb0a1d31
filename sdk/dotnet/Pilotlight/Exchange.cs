using System;
using System.Diagnostics;
using System.Threading;
using System.Threading.Tasks;

namespace Pilotlight
{
    /// <summary>One request and its answer. Invariant: exactly one final frame leaves for each (P-16); Finish is before
    /// all of them.</summary>
    internal sealed class Exchange
    {
        internal readonly Link Link; // of the request
        internal readonly int Id;
        internal readonly bool Offered; // a switch to another protocol
        internal readonly Request Request;
        internal readonly Response Response;
        internal readonly ManualResetEventSlim Settled; // of an offer: whether it was taken is known
        internal Link Out; // of the answer
        internal long Turn;
        internal volatile bool Led; // by the thread that has read it, which flushes
        internal volatile bool Ended, Done; // the request direction; the answer
        internal volatile int Reset; // the code by which it was cancelled
        internal volatile Upgraded Switched;
        private CancellationTokenSource aborting;

        internal Exchange(Link link, int id, byte[] input, int from, int length, bool ended, bool offered)
        {
            Link = Out = link;
            Id = id;
            Ended = ended;
            Offered = offered;
            Settled = offered ? new ManualResetEventSlim() : null;
            Request = new Request(this, input, from, length);
            Response = new Response(this);
        }

        internal static long NowMs => Stopwatch.GetTimestamp() / (Stopwatch.Frequency / 1000);

        internal CancellationToken Aborted
        {
            get
            {
                lock (this)
                {
                    if (aborting == null && Reset != 0) return new CancellationToken(true);
                    aborting = aborting ?? new CancellationTokenSource();
                    return aborting.Token;
                }
            }
        }

        /// <summary>Runs the handler and ends its answer; whatever it throws, only this exchange ends by it.</summary>
        internal async Task Run()
        {
            try
            {
                await Link.Service.Handler(Request, Response).ConfigureAwait(false);
                if (Switched == null) await Response.EndAsync().ConfigureAwait(false);
            }
            catch (Exception error)
            {
                Fail(error);
            }
            Settled?.Set();
            Switched?.Dispose();
            if (!Led) Link.TryFlush();
            Interlocked.Decrement(ref Link.Service.Open);
        }

        /// <summary>As Run, on a thread of the pool; tells the connection how long the handler has held it.</summary>
        internal void RunApart()
        {
            long begin = Stopwatch.GetTimestamp();
            _ = Run(); // it never fails
            Link.Took((Stopwatch.GetTimestamp() - begin) * 1000000 / Stopwatch.Frequency);
        }

        private void Fail(Exception error)
        {
            var asked = Response.HasBegun ? null : error as ResetException; // P-29: no REFUSED after a frame
            if (!(error is ResetException) && Reset == 0 && Switched == null)
            {
                Console.Error.WriteLine($"pilotlight: {Request.Method} {Request.Target}: the handler failed: {error}");
            }
            if (Done) return;
            if (asked != null) End(asked.Code, asked.Message, asked.RetryAfterMs);
            else if (Reset != 0) End(Wire.Cancelled, "cancelled", 0);
            else End(Wire.Internal, "the handler failed, its log says why", 0);
        }

        private void End(int code, string text, int retryAfterMs)
        {
            Finish();
            Out.Append(Wire.Reset, 0, Id, Wire.Payload(text, code, retryAfterMs));
            Sent();
        }

        /// <summary>This instance is to end: the request may go to another one (P-31).</summary>
        internal void Refuse()
        {
            End(Wire.Refused, "this instance is draining", 0);
            Interlocked.Decrement(ref Link.Service.Open);
        }

        /// <summary>The final frame is about to be sent: the gateway may use the id again as soon as it sees
        /// it.</summary>
        internal void Finish()
        {
            Done = true;
            Request.Body.Wake();
            if (Out != Link) Out.Forget(this);
            if (Ended) Link.Forget(this);
            else Link.Append(Wire.Stop, 0, Id, Wire.Empty); // P-21
        }

        /// <summary>The final frame is queued, or sent: the answer connection may carry another answer
        /// (P-25).</summary>
        internal void Sent()
        {
            if (Out == Link) return;
            Out.TryFlush();
            Link.Service.Release(Out);
        }

        /// <summary>The connection for frames that must not be on a shared one (P-17, P-24).</summary>
        internal Link Stream()
        {
            if (!Out.IsShared) return Out;
            Link.HandOver(Turn);
            Out = Link.Service.Answer(Link.Worker);
            Out.Open[Id] = this; // its end is that of the exchange (P-34)
            if (Out.Closed) Cancel(Wire.Cancelled);
            return Out;
        }

        /// <summary>The client has gone, the deadline is over (P-26), or a connection is gone (P-34).</summary>
        internal void Cancel(int code)
        {
            CancellationTokenSource tell;
            lock (this)
            {
                if (Done && Switched == null || Reset != 0) return;
                Reset = code == 0 ? Wire.Cancelled : code;
                tell = aborting;
            }
            Request.Body.Wake();
            if (tell != null) ThreadPool.QueueUserWorkItem(_ => tell.Cancel()); // it runs what handlers have registered
        }

        /// <summary>Accepts an offer (P-40).</summary>
        internal async Task<Upgraded> Switch(string protocol, string[] fields)
        {
            bool offered = false;
            foreach (string one in Request.Offers) offered |= one == protocol.ToLowerInvariant();
            if (!offered) throw new ArgumentException($"{protocol} is not among what the client offers");
            if (Done || Response.HasBegun) throw new InvalidOperationException("the answer has begun");
            var head = new Headers();
            for (int i = 0; i < fields.Length; i += 2) head.Add(fields[i], fields[i + 1]);
            head.Put("upgrade", protocol);
            var upgraded = new Upgraded(Link); // may be refused
            Finish();
            Switched = upgraded;
            await Link.SendAsync(Wire.Response, Wire.Upgrade, Id, 101, head, Wire.Empty, 0, 0).ConfigureAwait(false);
            upgraded.Begin();
            Settled.Set();
            return upgraded;
        }
    }
}

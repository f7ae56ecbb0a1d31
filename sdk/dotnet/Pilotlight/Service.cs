using System;
using System.Collections.Concurrent;
using System.Diagnostics;
using System.IO;
using System.Net.Sockets;
using System.Threading;
using System.Threading.Tasks;

namespace Pilotlight
{
    /// <summary>Limits of an instance, 1 to 4,096 each.</summary>
    public sealed class Options
    {
        /// <summary>Exchanges at once on a shared connection.</summary>
        public int Exchanges { get; set; } = 64;
        /// <summary>Connections for large and streamed requests.</summary>
        public int MaxOwn { get; set; } = 64;
        /// <summary>Connections that have switched to another protocol.</summary>
        public int MaxUpgraded { get; set; } = 1024;
    }

    /// <summary>Answers the HTTP requests that the Pilotlight gateway sends over Pipe/1: this instance, its
    /// connections, and
    /// when it ends.</summary>
    public sealed class Service
    {
        private const int MaxShared = 64, RestPollMs = 5, DrainReplyMs = 1000, EndMs = 1000, StackBytes = 512 * 1024;
        internal readonly Func<Request, Response, Task> Handler;
        internal readonly Options Options;
        internal readonly string Path = Environment.GetEnvironmentVariable("PILOTLIGHT_SOCKET");
        internal readonly string Token = Environment.GetEnvironmentVariable("PILOTLIGHT_TOKEN");
        internal readonly int Pid = Process.GetCurrentProcess().Id;
        internal readonly Watch Watch;
        internal int Open; // exchanges
        private int threads;
        private readonly ConcurrentDictionary<Link, bool> links = new ConcurrentDictionary<Link, bool>();
        private readonly ConcurrentDictionary<Upgraded, bool> upgraded = new ConcurrentDictionary<Upgraded, bool>();
        private readonly ConcurrentStack<Link> idle = new ConcurrentStack<Link>(); // answer connections
        private readonly TaskCompletionSource<int> ended = new TaskCompletionSource<int>();
        private volatile bool draining, released; // released: nothing holds this instance but open exchanges

        /// <summary>A service of `handler`, which is called for several requests at once. RunAsync starts it.</summary>
        public Service(Func<Request, Response, Task> handler, Options options = null)
        {
            Handler = handler ?? throw new ArgumentNullException(nameof(handler));
            Options = options ?? new Options();
            foreach (int limit in new[] { Options.Exchanges, Options.MaxOwn, Options.MaxUpgraded })
            {
                if (limit < 1 || limit > Wire.MaxLimit) throw new ArgumentOutOfRangeException(nameof(options));
            }
            Watch = new Watch(links);
        }

        internal bool Draining => draining;

        /// <summary>Serves until the gateway, SIGTERM or SIGINT ends the instance; gives what Main should return: 0;
        /// 1 if the
        /// gateway has refused the instance or broken the protocol; 2 if the gateway has not started this program. On
        /// Mono it
        /// does not return but ends the process.</summary>
        public static int Serve(Func<Request, Response, Task> handler, Options options = null)
        {
            var service = new Service(handler, options);
            Signals.OnEnd(service.Drain, service.ended.Task); // before the gateway can know of this process
            int status = service.RunAsync().GetAwaiter().GetResult();
            Signals.Leave(status);
            return status;
        }

        /// <summary>As Serve, without signals: see Drain.</summary>
        public async Task<int> RunAsync()
        {
            if (string.IsNullOrEmpty(Path) || string.IsNullOrEmpty(Token))
            {
                Console.Error.WriteLine("pilotlight: PILOTLIGHT_SOCKET or PILOTLIGHT_TOKEN is not set, "
                    + "the gateway does that: add the program to pilotlight.toml (command = [\"dotnet\", …], "
                    + "transport = \"pipe\") and run `pilotlight`");
                return 2;
            }
            Dial("shared", 1, -1);
            if (links.IsEmpty) return 1;
            Start(Watch.Run);
            int status = await ended.Task.ConfigureAwait(false);
            await End().ConfigureAwait(false);
            return status;
        }

        /// <summary>Closes everything, and waits for the threads: Mono cannot always end one that waits for a socket.
        /// </summary>
        private async Task End()
        {
            Watch.Stop();
            foreach (Link link in links.Keys) link.Close(new EndOfStreamException());
            long until = Exchange.NowMs + EndMs;
            while (Volatile.Read(ref threads) > 0 && Exchange.NowMs < until) await Task.Delay(1).ConfigureAwait(false);
        }

        /// <summary>Finishes what is open and refuses the rest; RunAsync ends then.</summary>
        public void Drain()
        {
            foreach (Link link in links.Keys)
            {
                if (!link.IsShared) continue;
                link.Append(Wire.Drain, 0, 0, new byte[4]); // P-32
                link.TryFlush();
            }
            Drain(false);
        }

        internal void Drain(bool byGateway)
        {
            released |= byGateway; // P-31
            lock (links)
            {
                if (draining) return;
                draining = true;
            }
            foreach (Upgraded one in upgraded.Keys) ThreadPool.QueueUserWorkItem(_ => one.Drain());
            Rest();
        }

        private async void Rest()
        {
            long until = Exchange.NowMs + DrainReplyMs;
            while (!((released || Exchange.NowMs > until) && IsAtRest()))
            {
                await Task.Delay(RestPollMs).ConfigureAwait(false);
            }
            ended.TrySetResult(0);
        }

        private bool IsAtRest()
        {
            if (Volatile.Read(ref Open) > 0) return false;
            foreach (Link link in links.Keys) if (!link.IsFlushed) return false;
            return true;
        }

        /// <summary>Opens connections, never more of a kind than its limit (P-23).</summary>
        private void Dial(string kind, int count, int worker)
        {
            lock (idle)
            {
                int most = Math.Min(count, (kind == "own" ? Options.MaxOwn : MaxShared) - CountOf(kind));
                try
                {
                    for (int i = 0; i < most; i++) Lead(Known(new Link(this, kind, worker)));
                }
                catch (SocketException error)
                {
                    Console.Error.WriteLine($"pilotlight: cannot dial the gateway at {Path}: {error.Message}");
                }
            }
        }

        private Link Known(Link link)
        {
            links[link] = true;
            return link;
        }

        private int CountOf(string kind)
        {
            int count = 0;
            foreach (Link link in links.Keys) if (link.Kind == kind) count++;
            return count;
        }

        internal void More(int kind, int count, int worker)
        {
            Wire.Check(kind == 1 || kind == 2, "P-11: MORE of an unknown kind");
            ThreadPool.QueueUserWorkItem(_ => Dial(kind == 1 ? "own" : "shared", draining ? 0 : count, worker));
        }

        /// <summary>Gives a connection a thread that leads it.</summary>
        internal void Lead(Link link) => Start(link.Lead);

        private void Start(Action body)
        {
            Interlocked.Increment(ref threads);
            new Thread(() =>
            {
                body();
                Interlocked.Decrement(ref threads);
            }, StackBytes) { IsBackground = true, Name = "pilotlight" }.Start();
        }

        /// <summary>An answer connection of this worker, an idle one (P-25) or a new one (P-24).</summary>
        internal Link Answer(int worker)
        {
            while (idle.TryPop(out Link link)) if (!link.Closed && link.Worker == worker) return link;
            var made = Known(new Link(this, "answer", worker));
            Lead(made);
            return made;
        }

        internal void Release(Link answer) => idle.Push(answer);

        internal Link AnyShared()
        {
            foreach (Link link in links.Keys) if (link.IsShared) return link;
            return null;
        }

        internal void Enter(Upgraded one, Link link)
        {
            if (upgraded.Count >= Options.MaxUpgraded)
            {
                throw ResetException.Overloaded("as many connections have switched as may", TimeSpan.FromSeconds(1));
            }
            upgraded[one] = true;
            links.TryRemove(link, out _); // P-42, before the gateway can know
        }

        internal void Leave(Upgraded one) => upgraded.TryRemove(one, out _);

        /// <summary>A connection has ended. P-33: without a shared one there is no gateway.</summary>
        internal void OnClosed(Link link, bool failed)
        {
            links.TryRemove(link, out _);
            if (link.IsShared && CountOf("shared") == 0) ended.TrySetResult(failed ? 1 : 0);
        }
    }

    /// <summary>Looks every few milliseconds whether a handler blocks the connection that it was read from; sleeps
    /// while
    /// nothing moves. So handlers that do not block cost no thread, and those that do hold up others for two
    /// looks.</summary>
    internal sealed class Watch
    {
        private const int TickMs = 2, QuietTicks = 50;
        private readonly ConcurrentDictionary<Link, bool> links;
        private readonly AutoResetEvent bell = new AutoResetEvent(false);
        private volatile bool asleep, stopped;

        internal Watch(ConcurrentDictionary<Link, bool> links)
        {
            this.links = links;
        }

        /// <summary>A handler is about to run.</summary>
        internal void Wake()
        {
            if (!asleep) return;
            asleep = false;
            bell.Set();
        }

        internal void Stop()
        {
            stopped = true;
            asleep = false;
            bell.Set();
        }

        internal void Run()
        {
            for (int quiet = 0; !stopped;)
            {
                Thread.Sleep(TickMs);
                bool moved = false;
                foreach (var one in links) moved |= one.Key.Look();
                quiet = moved ? 0 : quiet + 1;
                if (quiet > QuietTicks) Sleep();
            }
        }

        private void Sleep()
        {
            asleep = !stopped;
            Thread.MemoryBarrier();
            foreach (var one in links) if (one.Key.IsWatchable) asleep = false; // it has not seen that this sleeps
            while (asleep && !stopped) bell.WaitOne();
        }
    }
}

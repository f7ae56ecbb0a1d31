using System;
using System.Net.Sockets;
using System.Threading;
using System.Threading.Tasks;

namespace Pilotlight
{
    /// <summary>A connection that has switched to another protocol (P-41): bytes both ways, until the handler's task
    /// ends.
    /// </summary>
    public sealed class Upgraded : NetworkStream
    {
        private readonly Link link;
        private Action onDrain;
        private ArraySegment<byte> early = new ArraySegment<byte>(Wire.Empty); // what had been read with frames

        internal Upgraded(Link link) : base(link.Socket, false)
        {
            this.link = link;
            link.Service.Enter(this, link);
        }

        internal void Begin() => early = link.Leave();

        /// <summary>Has `action` run once when the instance is to end (P-43): end the protocol by its own means
        /// then.</summary>
        public void OnDrain(Action action)
        {
            Interlocked.Exchange(ref onDrain, action);
            if (link.Service.Draining) Drain();
        }

        internal void Drain() => Interlocked.Exchange(ref onDrain, null)?.Invoke();

        /// <summary>Ends the direction to the client; the other one stays.</summary>
        public void EndWrites() => link.Socket.Shutdown(SocketShutdown.Send);

        /// <inheritdoc/>
        public override int Read(byte[] to, int from, int length) =>
            early.Count > 0 ? TakeEarly(to, from, length) : base.Read(to, from, length);

        /// <inheritdoc/>
        public override Task<int> ReadAsync(byte[] to, int from, int length, CancellationToken stop) =>
            early.Count > 0 ? Task.FromResult(TakeEarly(to, from, length)) : base.ReadAsync(to, from, length, stop);

        private int TakeEarly(byte[] to, int from, int length)
        {
            int count = Math.Min(length, early.Count);
            Buffer.BlockCopy(early.Array, early.Offset, to, from, count);
            early = new ArraySegment<byte>(early.Array, early.Offset + count, early.Count - count);
            return count;
        }

        /// <inheritdoc/>
        protected override void Dispose(bool disposing)
        {
            base.Dispose(disposing);
            if (!disposing || link == null) return;
            link.Service.Leave(this);
            link.Socket.Close();
        }
    }
}

using System;
using System.Text;

namespace Pilotlight
{
    /// <summary>Numbers of Pipe/1 (docs/spec/pipe.md) and how they are written.</summary>
    internal static class Wire
    {
        internal const int Hello = 1, Welcome = 2, Request = 3, Response = 4, Info = 5, Data = 6, Trailers = 7, Stop = 8,
            Reset = 9, Ping = 10, Pong = 11, Drain = 12, More = 13, Log = 14;
        internal const int End = 0x01, Upgrade = 0x02, Ignorable = 0x80;
        internal const int Cancelled = 1, Refused = 3, Overloaded = 4, Internal = 5, Protocol = 6, TooLarge = 7;
        internal const int HeaderBytes = 8, MinMaxFrame = 65536, MaxWelcome = 4096, MaxLimit = 4096;
        private const int MaxTextChars = 341; // of a RESET's or LOG's text: at most 3 bytes each, 1,024 are allowed
        internal static readonly byte[] Empty = new byte[0];
        internal static readonly Encoding Latin1 = Encoding.GetEncoding(28591);

        internal static int U16(byte[] bytes, int at) => bytes[at] | bytes[at + 1] << 8;

        internal static int U32(byte[] bytes, int at) => U16(bytes, at) | U16(bytes, at + 2) << 16;

        internal static void Put(byte[] bytes, int at, int number)
        {
            bytes[at] = (byte)number;
            bytes[at + 1] = (byte)(number >> 8);
            bytes[at + 2] = (byte)(number >> 16);
            bytes[at + 3] = (byte)(number >> 24);
        }

        /// <summary>Numbers of 32 bits, and then text as far as it may go.</summary>
        internal static byte[] Payload(string text, params int[] numbers)
        {
            byte[] cut = Encoding.UTF8.GetBytes(text.Length > MaxTextChars ? text.Substring(0, MaxTextChars) : text);
            var bytes = new byte[numbers.Length * 4 + cut.Length];
            for (int i = 0; i < numbers.Length; i++) Put(bytes, i * 4, numbers[i]);
            Buffer.BlockCopy(cut, 0, bytes, numbers.Length * 4, cut.Length);
            return bytes;
        }

        /// <summary>P-8: how many strings a block has, each ended by a zero byte: `first` ones, then pairs.</summary>
        internal static int Strings(byte[] bytes, int from, int to, int first)
        {
            Check(from == to || bytes[to - 1] == 0, "P-8: the last string has no final zero byte");
            int count = 0;
            for (int i = from; i < to; i++) if (bytes[i] == 0) count++;
            Check(count >= first && (count - first) % 2 == 0, "P-8: a name without a value, or too few strings");
            return count;
        }

        internal static void Check(bool kept, string rule)
        {
            if (!kept) throw new ViolationException(rule);
        }
    }

    /// <summary>The gateway has broken a rule of the specification (P-10).</summary>
    internal sealed class ViolationException : Exception
    {
        internal ViolationException(string rule) : base(rule) { }
    }

    /// <summary>The gateway has refused a connection (P-4), or ended it (P-10).</summary>
    internal sealed class RefusalException : Exception
    {
        internal RefusalException(string text) : base(text) { }
    }

    /// <summary>Thrown by a handler that has not begun to answer: ends the exchange without an answer.</summary>
    public sealed class ResetException : Exception
    {
        internal readonly int Code, RetryAfterMs;

        private ResetException(int code, string text, double retryAfterMs) : base(text)
        {
            Code = code;
            RetryAfterMs = (int)Math.Min(Math.Max(0, retryAfterMs), int.MaxValue);
        }

        /// <summary>Nothing has happened: another instance may take the request, whatever its method (P-29).</summary>
        public static ResetException Refused(string text) => new ResetException(Wire.Refused, text, 0);

        /// <summary>As Refused, and this instance has too much to do for that long: 503 with Retry-After.</summary>
        public static ResetException Overloaded(string text, TimeSpan retryAfter) =>
            new ResetException(Wire.Overloaded, text, retryAfter.TotalMilliseconds);

        /// <summary>The body of the request is larger than the handler takes: 413.</summary>
        public static ResetException TooLarge(string text) => new ResetException(Wire.TooLarge, text, 0);
    }
}

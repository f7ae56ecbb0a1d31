using System;
using System.Collections;
using System.Collections.Generic;

namespace Pilotlight
{
    /// <summary>Fields in their order, names in lower case. What must not cross the pipe (P-9) is left out.</summary>
    public sealed class Headers : IEnumerable<KeyValuePair<string, string>>
    {
        private readonly List<KeyValuePair<string, string>> list;
        private List<string> named; // P-9: what `connection` has named

        internal Headers()
        {
            list = new List<KeyValuePair<string, string>>(4);
        }

        /// <summary>Of names and values that the gateway has sent, each ended by a zero byte.</summary>
        internal Headers(byte[] block, int from, int to)
        {
            list = new List<KeyValuePair<string, string>>(12);
            while (from < to)
            {
                string name = Text(block, ref from);
                list.Add(new KeyValuePair<string, string>(name, Text(block, ref from)));
            }
        }

        /// <summary>How many bytes Write writes.</summary>
        internal int Bytes { get; private set; }

        /// <summary>The number of fields.</summary>
        public int Count => list.Count;

        /// <summary>The first value of this name, or null. Setting it takes the place of all of them.</summary>
        public string this[string name]
        {
            get
            {
                foreach (var one in list) if (Same(one.Key, name)) return one.Value;
                return null;
            }
            set => Remove(name).Add(name, value);
        }

        /// <summary>All values of this name, in their order.</summary>
        public IEnumerable<string> All(string name)
        {
            foreach (var one in list) if (Same(one.Key, name)) yield return one.Value;
        }

        /// <summary>Adds a field; throws for what HTTP does not allow, and for what is not ISO 8859-1.</summary>
        public Headers Add(string name, string value)
        {
            string lower = Lower(name);
            foreach (char c in value) if (c == 0 || c == '\r' || c == '\n' || c > 0xff) throw Illegal("value", name);
            switch (lower)
            {
                case "connection":
                    named = named ?? new List<string>();
                    foreach (string one in value.Split(',')) named.Add(one.Trim());
                    foreach (string one in named) Remove(one);
                    return this;
                case "keep-alive": case "proxy-connection": case "te": case "transfer-encoding": case "upgrade":
                case "expect": case "host":
                    return this;
            }
            if (named != null && named.Exists(one => Same(one, lower))) return this;
            return Put(lower, value);
        }

        /// <summary>Removes all fields of that name.</summary>
        public Headers Remove(string name)
        {
            for (int i = list.Count - 1; i >= 0; i--)
            {
                if (!Same(list[i].Key, name)) continue;
                Bytes -= list[i].Key.Length + list[i].Value.Length + 2;
                list.RemoveAt(i);
            }
            return this;
        }

        /// <summary>The fields in their order.</summary>
        public IEnumerator<KeyValuePair<string, string>> GetEnumerator() => list.GetEnumerator();

        IEnumerator IEnumerable.GetEnumerator() => list.GetEnumerator();

        internal Headers Put(string lower, string value)
        {
            list.Add(new KeyValuePair<string, string>(lower, value));
            Bytes += lower.Length + value.Length + 2;
            return this;
        }

        internal void Write(byte[] to, int at)
        {
            for (int i = 0; i < list.Count; i++) at = Write(list[i].Value, to, Write(list[i].Key, to, at));
        }

        private static int Write(string text, byte[] to, int at)
        {
            for (int i = 0; i < text.Length; i++) to[at++] = (byte)text[i];
            to[at++] = 0;
            return at;
        }

        /// <summary>The string at this place, which is moved behind its zero byte.</summary>
        internal static string Text(byte[] block, ref int from)
        {
            int end = Array.IndexOf(block, (byte)0, from), begin = from;
            from = end + 1;
            return Wire.Latin1.GetString(block, begin, end - begin);
        }

        private static bool Same(string one, string other) =>
            one.Length == other.Length && string.Equals(one, other, StringComparison.OrdinalIgnoreCase);

        private static string Lower(string name)
        {
            bool lower = true;
            foreach (char c in name)
            {
                if (c <= ' ' || c >= 0x7f || c == ':') throw Illegal("name", name);
                lower &= c < 'A' || c > 'Z';
            }
            if (name.Length == 0) throw Illegal("name", name);
            return lower ? name : name.ToLowerInvariant();
        }

        private static ArgumentException Illegal(string what, string name) =>
            new ArgumentException($"the {what} of the field \"{name}\" is not allowed in HTTP");
    }
}

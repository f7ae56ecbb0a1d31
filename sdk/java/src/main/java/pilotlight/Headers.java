package pilotlight;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Header fields in their order, names in lower case. Those that must not cross the pipe (P-9) are left out. */
public final class Headers {
    private String[] list;
    private int count, bytes;
    private List<String> named = List.of(); // P-9: what `connection` has named

    Headers() {
        list = new String[16];
    }

    /** Of names and values that the gateway has sent, each ended by a zero byte. */
    Headers(byte[] block, int from, int to, int strings) {
        list = new String[strings];
        for (int at = from, end; at < to; at = end + 1) {
            for (end = at; block[end] != 0;) end++;
            list[count++] = new String(block, at, end - at, StandardCharsets.ISO_8859_1);
        }
    }

    /** The number of fields. */
    public int size() {
        return count / 2;
    }

    /** The name of the field at this place, in lower case. */
    public String name(int place) {
        return list[place * 2];
    }

    /** The value of the field at this place. */
    public String value(int place) {
        return list[place * 2 + 1];
    }

    /** The first value of this name, or null. */
    public String get(String name) {
        for (int i = 0; i < count; i += 2) if (list[i].equalsIgnoreCase(name)) return list[i + 1];
        return null;
    }

    /** All values of this name, in their order. */
    public List<String> all(String name) {
        List<String> found = new ArrayList<>(2);
        for (int i = 0; i < count; i += 2) if (list[i].equalsIgnoreCase(name)) found.add(list[i + 1]);
        return found;
    }

    /**
     * Adds a field.
     * @throws IllegalArgumentException for a name or value that HTTP does not allow, or that is not ISO 8859-1
     */
    public Headers add(String name, String value) {
        String lower = lower(name);
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            if (c == 0 || c == '\r' || c == '\n' || c > 0xff) throw illegal("value", name);
        }
        switch (lower) {
            case "connection":
                named = new ArrayList<>(named);
                for (String one : value.split(",")) named.add(one.trim());
                for (String one : named) remove(one);
                return this;
            case "keep-alive": case "proxy-connection": case "te": case "transfer-encoding": case "upgrade":
            case "expect": case "host":
                return this;
            default:
        }
        for (String one : named) if (one.equalsIgnoreCase(lower)) return this;
        return put(lower, value);
    }

    /** Adds a field in the place of all of that name. */
    public Headers set(String name, String value) {
        return remove(name).add(name, value);
    }

    /** Removes all fields of that name. */
    public Headers remove(String name) {
        int kept = 0;
        for (int i = 0; i < count; i += 2) {
            boolean goes = list[i].equalsIgnoreCase(name);
            if (goes) {
                bytes -= list[i].length() + list[i + 1].length() + 2;
                continue;
            }
            list[kept++] = list[i];
            list[kept++] = list[i + 1];
        }
        count = kept;
        return this;
    }

    Headers put(String lower, String value) {
        if (count == list.length) list = Arrays.copyOf(list, count * 2);
        list[count++] = lower;
        list[count++] = value;
        bytes += lower.length() + value.length() + 2;
        return this;
    }

    /** How many bytes `write` writes. */
    int bytes() {
        return bytes;
    }

    @SuppressWarnings("deprecation") // the only one that makes no array; every character fits a byte
    void write(byte[] out, int at) {
        for (int i = 0; i < count; i++) {
            int length = list[i].length();
            list[i].getBytes(0, length, out, at);
            out[at += length] = 0;
            at++;
        }
    }

    private static String lower(String name) {
        boolean lower = !name.isEmpty();
        for (int i = 0; i < name.length(); i++) {
            char c = name.charAt(i);
            if (c <= ' ' || c >= 0x7f || c == ':') throw illegal("name", name);
            lower &= c < 'A' || c > 'Z';
        }
        if (name.isEmpty()) throw illegal("name", name);
        return lower ? name : name.toLowerCase(java.util.Locale.ROOT);
    }

    private static IllegalArgumentException illegal(String what, String name) {
        return new IllegalArgumentException("the " + what + " of the field \"" + name + "\" is not allowed in HTTP");
    }
}

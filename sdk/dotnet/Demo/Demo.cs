using System;
using System.Collections.Concurrent;
using System.Diagnostics;
using System.IO;
using System.Security.Cryptography;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using Pilotlight;

/// <summary>The demo service that every SDK has; sdk/conformance drives it. Start it as a service of the
/// gateway.</summary>
internal static class Demo
{
    private const int Period = 251, BlockBytes = Period * 256; // of the download's bytes
    private static readonly ConcurrentDictionary<string, bool> Cancelled = new ConcurrentDictionary<string, bool>();
    private static readonly ConcurrentDictionary<string, bool> Seen = new ConcurrentDictionary<string, bool>();

    private static int Main() => Service.Serve(Handle);

    private static Task Handle(Request request, Response response)
    {
        if (request.Path.StartsWith("/echo", StringComparison.Ordinal)) return Echo(request, response);
        switch (request.Path)
        {
            case "/upload": return Upload(request, response);
            case "/download": return Download(response, Number(request, "bytes"));
            case "/slow": return Slow(request, response);
            case "/wait": return Ticks(request, response);
            case "/cancelled":
                return Json(response,
                    $"{{\"cancelled\":{(Cancelled.ContainsKey(Parameter(request, "id")) ? "true" : "false")}}}");
            case "/crash":
                Process.GetCurrentProcess().Kill();
                return Task.CompletedTask;
            case "/flood": return Flood(response, Number(request, "bytes"));
            case "/status":
                response.Status = (int)Number(request, "code");
                return Task.CompletedTask;
            case "/cookies":
                response.Headers.Add("set-cookie", "a=1").Add("set-cookie", "b=2");
                return Task.CompletedTask;
            case "/sleep": return Sleep(request, response);
            case "/block": // holds its thread, as handlers that were written for blocking calls do
                Thread.Sleep((int)Number(request, "ms"));
                return response.SendAsync("slept");
            case "/deadline":
                string left = request.TimeLeft == null ? "null"
                    : ((long)request.TimeLeft.Value.TotalMilliseconds).ToString();
                return Json(response, $"{{\"deadline_ms\":{left}}}");
            case "/pid": return Json(response, $"{{\"pid\":{Process.GetCurrentProcess().Id}}}");
            case "/early":
                response.Status = 413;
                return response.SendAsync("too large\n");
            case "/trailers":
                response.Headers.Add("trailer", "x-trailer");
                response.Trailers.Add("x-trailer", "yes");
                return response.SendAsync("body");
            case "/error": throw new InvalidOperationException("as asked");
            case "/refuse":
                if (Seen.TryAdd(request.Headers["x-once"] ?? "", true)) throw ResetException.Refused("the first time");
                return response.SendAsync("taken");
            case "/switch": return SwitchAndEcho(request, response);
            case "/big-header":
                response.Headers.Add("x-big", new string('x', (int)Number(request, "bytes")));
                return Task.CompletedTask;
            default:
                response.Status = 404;
                return response.SendAsync("not found\n");
        }
    }

    private static async Task Echo(Request request, Response response)
    {
        string type = request.Headers["content-type"];
        if (type != null) response.Headers.Add("content-type", type);
        response.Headers.Add("x-method", request.Method).Add("x-target", request.Target);
        foreach (var field in request.Headers)
        {
            if (field.Key.StartsWith("x-echo-", StringComparison.Ordinal)) response.Headers.Add(field.Key, field.Value);
        }
        await request.Body.CopyToAsync(response.Body);
    }

    private static async Task Upload(Request request, Response response)
    {
        var piece = new byte[65536];
        long total = 0;
        using (SHA256 digest = SHA256.Create())
        {
            for (int count; (count = await request.Body.ReadAsync(piece, 0, piece.Length)) > 0; total += count)
            {
                digest.TransformBlock(piece, 0, count, null, 0);
            }
            digest.TransformFinalBlock(piece, 0, 0);
            string hex = BitConverter.ToString(digest.Hash).Replace("-", "").ToLowerInvariant();
            await Json(response, $"{{\"bytes\":{total},\"sha256\":\"{hex}\"}}");
        }
    }

    private static async Task Download(Response response, long bytes)
    {
        var block = new byte[BlockBytes];
        for (int i = 0; i < block.Length; i++) block[i] = (byte)((i * 31 + 7) % Period);
        response.Headers.Add("content-type", "application/octet-stream").Add("content-length", bytes.ToString());
        for (long left = bytes; left > 0; left -= BlockBytes)
        {
            await response.Body.WriteAsync(block, 0, (int)Math.Min(left, BlockBytes));
        }
    }

    private static async Task Slow(Request request, Response response)
    {
        for (int i = 0; i < Number(request, "chunks"); i++)
        {
            if (i > 0) await Task.Delay((int)Number(request, "ms"), request.Aborted);
            byte[] line = Encoding.ASCII.GetBytes($"chunk {i}\n");
            await response.Body.WriteAsync(line, 0, line.Length);
            await response.Body.FlushAsync();
        }
    }

    private static async Task Ticks(Request request, Response response)
    {
        byte[] tick = Encoding.ASCII.GetBytes("tick\n");
        try
        {
            while (true)
            {
                await response.Body.WriteAsync(tick, 0, tick.Length);
                await response.Body.FlushAsync();
                await Task.Delay(20, request.Aborted);
            }
        }
        finally
        {
            Cancelled[Parameter(request, "id")] = true;
        }
    }

    private static async Task Flood(Response response, long bytes)
    {
        var lines = new byte[64000];
        for (int i = 0; i < lines.Length; i++) lines[i] = (byte)(i % 100 == 99 ? '\n' : 'f');
        using (Stream output = Console.OpenStandardOutput())
        {
            for (long left = bytes; left > 0; left -= lines.Length)
            {
                output.Write(lines, 0, (int)Math.Min(left, lines.Length));
            }
        }
        await Json(response, $"{{\"flooded\":{bytes}}}");
    }

    private static async Task Sleep(Request request, Response response)
    {
        await Task.Delay((int)Number(request, "ms"), request.Aborted);
        await response.SendAsync("slept");
    }

    /// <summary>Switches to what is offered first, whatever that is, and sends back the bytes that come.</summary>
    private static async Task SwitchAndEcho(Request request, Response response)
    {
        if (request.Offers.Count == 0)
        {
            response.Status = 426;
            await response.SendAsync("upgrade required\n");
            return;
        }
        Upgraded connection = await request.UpgradeAsync(request.Offers[0]);
        await connection.CopyToAsync(connection);
    }

    private static Task Json(Response response, string text)
    {
        response.Headers.Add("content-type", "application/json");
        return response.SendAsync(text);
    }

    private static string Parameter(Request request, string name)
    {
        foreach (string pair in request.Query.Split('&'))
        {
            if (pair.StartsWith(name + "=", StringComparison.Ordinal)) return pair.Substring(name.Length + 1);
        }
        return "";
    }

    private static long Number(Request request, string name) => long.Parse(Parameter(request, name));
}

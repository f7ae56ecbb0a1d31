using System;
using System.IO;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using Pilotlight;

/// <summary>The service that sdk/dotnet/tests drives: `Services.exe FIFO`.</summary>
internal static class Services
{
    private static string gate;

    private static int Main(string[] arguments)
    {
        gate = arguments[0];
        return Service.Serve(Handle, new Options { MaxUpgraded = 1 });
    }

    private static async Task Handle(Request request, Response response)
    {
        switch (request.Path)
        {
            case "/thread":
                await response.SendAsync(Thread.CurrentThread.ManagedThreadId.ToString());
                break;
            case "/block": // its thread, until the test has opened and closed the gate
                using (FileStream file = File.OpenRead(gate)) file.ReadByte();
                await response.SendAsync("unblocked");
                break;
            case "/read-blocking":
                await response.SendAsync(new StreamReader(request.Body).ReadToEnd());
                break;
            case "/fields":
                response.Headers.Add("X-A", "1").Add("X-B", "2").Add("Connection", "close, x-b").Add("X-B", "3")
                    .Add("Transfer-Encoding", "x").Add("Set-Cookie", "a").Add("set-cookie", "b");
                response.Headers["x-a"] = "4";
                break;
            case "/bad-value":
                response.Headers.Add("x-a", "1\r\nx-b: 2");
                break;
            case "/echo":
                var piece = new byte[65536];
                for (int count; (count = await request.Body.ReadAsync(piece, 0, piece.Length)) > 0;)
                {
                    await response.Body.WriteAsync(piece, 0, count);
                    await response.Body.FlushAsync();
                }
                break;
            case "/trailers":
                await request.Body.CopyToAsync(Stream.Null);
                await response.SendAsync(request.Trailers["x-sum"]);
                break;
            case "/wait":
                try
                {
                    await response.Body.FlushAsync();
                    await Task.Delay(-1, request.Aborted);
                }
                finally
                {
                    Console.WriteLine("cancelled " + request.Aborted.IsCancellationRequested);
                }
                break;
            case "/fail-late":
                response.Body.WriteByte((byte)'x');
                await response.Body.FlushAsync();
                throw new InvalidOperationException("late");
            case "/overloaded": throw ResetException.Overloaded("busy", TimeSpan.FromSeconds(2));
            case "/too-large": throw ResetException.TooLarge("no more than a byte");
            case "/hints":
                await response.InformAsync(103, "link", "</a.css>");
                await response.SendAsync("hinted");
                break;
            case "/log":
                request.Log(Level.Warn, "from the handler");
                break;
            case "/later":
                await Task.Delay(5);
                await response.SendAsync(request.Path);
                break;
            case "/switch":
                Upgraded connection = await request.UpgradeAsync("echo", "x-extra", "1");
                connection.OnDrain(() =>
                {
                    connection.Write(Encoding.ASCII.GetBytes("bye"), 0, 3);
                    connection.EndWrites();
                });
                await connection.CopyToAsync(connection);
                break;
            default:
                if (request.Path.StartsWith("/slow", StringComparison.Ordinal)) Thread.Sleep(3);
                await response.SendAsync(request.Path);
                break;
        }
    }
}

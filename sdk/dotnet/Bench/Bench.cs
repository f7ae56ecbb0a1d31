using System;
using System.Diagnostics;
using System.Net;
using System.Text;
using System.Threading.Tasks;
using Pilotlight;

/// <summary>What sdk/conformance/cpu.py measures: 200 bytes of JSON, by an HttpListener on PORT or over the
/// pipe.</summary>
internal static class Bench
{
    private static readonly byte[] Answer = Encoding.ASCII.GetBytes("{\"id\":42,\"pad\":\"" + new string('x', 182) + "\"}");
    private static readonly string Pid = Process.GetCurrentProcess().Id.ToString();

    private static int Main()
    {
        string port = Environment.GetEnvironmentVariable("PORT");
        return port == null ? Service.Serve(Handle) : Listen(port).GetAwaiter().GetResult();
    }

    private static Task Handle(Request request, Response response)
    {
        response.Headers.Add("content-type", "application/json").Add("x-pid", Pid);
        return response.SendAsync(Answer);
    }

    private static async Task<int> Listen(string port)
    {
        var listener = new HttpListener();
        listener.Prefixes.Add($"http://*:{port}/");
        listener.Start();
        while (true)
        {
            HttpListenerContext context = await listener.GetContextAsync();
            context.Response.ContentType = "application/json";
            context.Response.AddHeader("x-pid", Pid);
            context.Response.ContentLength64 = Answer.Length;
            context.Response.OutputStream.Write(Answer, 0, Answer.Length);
            context.Response.Close();
        }
    }
}

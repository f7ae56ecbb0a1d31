// The handler of `pilotlight lab transport` on .NET: over the pipe with the SDK, or by Kestrel on the socket that is
// descriptor 3.
using System;
using System.Text;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Logging;

internal static class Program
{
    private const ulong Inherited = 3;
    private static readonly byte[] Answer = Encoding.ASCII.GetBytes("{\"id\":42,\"pad\":\"" + new string('x', 182) + "\"}");

    private static int Main()
    {
        bool isPipe = !string.IsNullOrEmpty(Environment.GetEnvironmentVariable("PILOTLIGHT_SOCKET"));
        return isPipe ? Pilotlight.Service.Serve(OverPipe) : OverHttp();
    }

    private static Task OverPipe(Pilotlight.Request request, Pilotlight.Response response)
    {
        response.Headers.Add("content-type", "application/json");
        return response.SendAsync(Answer);
    }

    private static int OverHttp()
    {
        WebApplicationBuilder builder = WebApplication.CreateBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.ConfigureKestrel(options => options.ListenHandle(Inherited));
        WebApplication app = builder.Build();
        app.Run(context =>
        {
            context.Response.ContentType = "application/json";
            context.Response.ContentLength = Answer.Length;
            return context.Response.Body.WriteAsync(Answer, 0, Answer.Length);
        });
        app.Run();
        return 0;
    }
}

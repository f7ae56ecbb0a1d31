// Not compiled and not run by any test: see README.md.
using System;
using System.Collections.Generic;
using System.IO;
using System.IO.Pipelines;
using System.Net;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Primitives;

namespace Pilotlight.AspNetCore
{
    /// <summary>What programs call.</summary>
    public static class PilotlightExtensions
    {
        /// <summary>Serves over the pipe if the gateway has started this program; otherwise changes nothing.</summary>
        public static IWebHostBuilder UsePilotlight(this IWebHostBuilder builder, Options options = null)
        {
            if (string.IsNullOrEmpty(Environment.GetEnvironmentVariable("PILOTLIGHT_SOCKET"))) return builder;
            return builder.ConfigureServices(services => services.AddSingleton<IServer>(provider =>
                new PipeServer(options ?? new Options(), provider.GetRequiredService<IHostApplicationLifetime>())));
        }
    }

    /// <summary>A server whose requests come from the Pilotlight gateway.</summary>
    public sealed class PipeServer : IServer
    {
        private readonly Options options;
        private readonly IHostApplicationLifetime lifetime;
        private Service service;
        private Task run;

        /// <summary>A server with these limits, which stops the application at the end of the instance.</summary>
        public PipeServer(Options options, IHostApplicationLifetime lifetime)
        {
            this.options = options;
            this.lifetime = lifetime;
        }

        /// <inheritdoc/>
        public IFeatureCollection Features { get; } = new FeatureCollection();

        /// <inheritdoc/>
        public Task StartAsync<TContext>(IHttpApplication<TContext> application, CancellationToken stop)
        {
            service = new Service((request, response) => Handle(application, request, response), options);
            run = Run();
            return Task.CompletedTask;
        }

        private async Task Run()
        {
            Environment.ExitCode = await service.RunAsync().ConfigureAwait(false);
            lifetime.StopApplication();
        }

        /// <inheritdoc/>
        public Task StopAsync(CancellationToken stop)
        {
            service?.Drain();
            return run == null ? Task.CompletedTask : Task.WhenAny(run, Task.Delay(Timeout.Infinite, stop));
        }

        /// <inheritdoc/>
        public void Dispose() { }

        private static async Task Handle<TContext>(IHttpApplication<TContext> application, Request request,
            Response response)
        {
            var exchange = new PipeFeatures(request, response);
            TContext context = application.CreateContext(exchange.Collection);
            Exception failure = null;
            try
            {
                await application.ProcessRequestAsync(context);
                await exchange.EndAsync();
            }
            catch (Exception error)
            {
                failure = error;
                throw;
            }
            finally
            {
                await exchange.CompletedAsync();
                application.DisposeContext(context, failure);
            }
        }
    }

    /// <summary>One exchange as the features that ASP.NET Core makes an HttpContext of.</summary>
    internal sealed class PipeFeatures : IHttpRequestFeature, IHttpResponseFeature, IHttpResponseBodyFeature,
        IHttpRequestLifetimeFeature, IHttpConnectionFeature, IHttpRequestIdentifierFeature, IHttpUpgradeFeature,
        IHttpResponseTrailersFeature, IHttpRequestTrailersFeature, IHttpRequestBodyDetectionFeature
    {
        private readonly Request request;
        private readonly Response response;
        private readonly CancellationTokenSource aborting = new CancellationTokenSource();
        private readonly Stack<(Func<object, Task>, object)> starting = new Stack<(Func<object, Task>, object)>();
        private readonly Stack<(Func<object, Task>, object)> completed = new Stack<(Func<object, Task>, object)>();
        private readonly StartingStream stream;
        private PipeWriter writer;
        private bool upgraded;

        internal PipeFeatures(Request request, Response response)
        {
            this.request = request;
            this.response = response;
            stream = new StartingStream(this, response.Body);
            RequestAborted = CancellationTokenSource.CreateLinkedTokenSource(request.Aborted, aborting.Token).Token;
            Method = request.Method;
            Scheme = request.Scheme;
            Protocol = request.Protocol;
            RawTarget = request.Target;
            Path = Uri.UnescapeDataString(request.Path);
            QueryString = request.Query == "" ? "" : "?" + request.Query;
            var fields = new HeaderDictionary { ["Host"] = request.Authority };
            foreach (var field in request.Headers) fields.Append(field.Key, field.Value);
            if (IsUpgradableRequest) fields["Connection"] = "Upgrade";
            ((IHttpRequestFeature)this).Headers = fields;
            Body = request.Body;
            int colon = request.Peer.LastIndexOf(':');
            if (colon > 0 && IPAddress.TryParse(request.Peer.Substring(0, colon).Trim('[', ']'), out IPAddress address))
            {
                RemoteIpAddress = address;
                RemotePort = int.Parse(request.Peer.Substring(colon + 1));
            }
            foreach (Type type in typeof(PipeFeatures).GetInterfaces()) Collection[type] = this;
        }

        internal FeatureCollection Collection { get; } = new FeatureCollection();

        public string Protocol { get; set; }
        public string Scheme { get; set; }
        public string Method { get; set; }
        public string PathBase { get; set; } = "";
        public string Path { get; set; }
        public string QueryString { get; set; }
        public string RawTarget { get; set; }
        public Stream Body { get; set; }
        IHeaderDictionary IHttpRequestFeature.Headers { get; set; }

        public int StatusCode { get; set; } = 200;
        public string ReasonPhrase { get; set; }
        IHeaderDictionary IHttpResponseFeature.Headers { get; set; } = new HeaderDictionary();
        Stream IHttpResponseFeature.Body { get => stream; set => throw new NotSupportedException(); }
        public bool HasStarted { get; private set; }
        public void OnStarting(Func<object, Task> callback, object state) => starting.Push((callback, state));
        public void OnCompleted(Func<object, Task> callback, object state) => completed.Push((callback, state));

        Stream IHttpResponseBodyFeature.Stream => stream;
        public PipeWriter Writer => writer = writer ?? PipeWriter.Create(stream,
            new StreamPipeWriterOptions(leaveOpen: true));
        public void DisableBuffering() { }
        public Task StartAsync(CancellationToken stop = default) => BeginAsync();
        public Task SendFileAsync(string path, long offset, long? count, CancellationToken stop = default) =>
            SendFileFallback.SendFileAsync(stream, path, offset, count, stop);
        public Task CompleteAsync() => EndAsync();

        public CancellationToken RequestAborted { get; set; }
        public void Abort() => aborting.Cancel();

        public string ConnectionId { get; set; } = "";
        public IPAddress RemoteIpAddress { get; set; }
        public IPAddress LocalIpAddress { get; set; }
        public int RemotePort { get; set; }
        public int LocalPort { get; set; }

        public string TraceIdentifier { get => request.Id; set { } }

        public bool IsUpgradableRequest => request.Offers.Count > 0;

        public async Task<Stream> UpgradeAsync()
        {
            upgraded = HasStarted = true;
            var fields = new List<string>();
            foreach (var field in ((IHttpResponseFeature)this).Headers)
            {
                foreach (string value in field.Value) fields.AddRange(new[] { field.Key, value });
            }
            return await request.UpgradeAsync(request.Offers[0], fields.ToArray());
        }

        IHeaderDictionary IHttpResponseTrailersFeature.Trailers { get; set; } = new HeaderDictionary();

        public bool Available => true;
        IHeaderDictionary IHttpRequestTrailersFeature.Trailers
        {
            get
            {
                var trailers = new HeaderDictionary();
                foreach (var field in request.Trailers) trailers.Append(field.Key, field.Value);
                return trailers;
            }
        }

        public bool CanHaveBody => request.Headers["content-length"] != "0" && Method != "GET" && Method != "HEAD";

        /// <summary>Status and headers are final from now on.</summary>
        internal async Task BeginAsync()
        {
            if (HasStarted) return;
            while (starting.Count > 0)
            {
                (Func<object, Task> callback, object state) = starting.Pop();
                await callback(state);
            }
            HasStarted = true;
            response.Status = StatusCode;
            foreach (var field in ((IHttpResponseFeature)this).Headers)
            {
                foreach (string value in field.Value) response.Headers.Add(field.Key, value);
            }
        }

        internal async Task EndAsync()
        {
            if (upgraded) return;
            if (writer != null) await writer.FlushAsync();
            await BeginAsync();
            foreach (var field in ((IHttpResponseTrailersFeature)this).Trailers)
            {
                foreach (string value in field.Value) response.Trailers.Add(field.Key, value);
            }
        }

        internal async Task CompletedAsync()
        {
            while (completed.Count > 0)
            {
                (Func<object, Task> callback, object state) = completed.Pop();
                await callback(state);
            }
        }

        /// <summary>The answer's body, before whose first byte status and headers are final.</summary>
        private sealed class StartingStream : Stream
        {
            private readonly PipeFeatures exchange;
            private readonly Stream body;

            internal StartingStream(PipeFeatures exchange, Stream body)
            {
                this.exchange = exchange;
                this.body = body;
            }

            public override async Task WriteAsync(byte[] bytes, int from, int length, CancellationToken stop)
            {
                await exchange.BeginAsync();
                await body.WriteAsync(bytes, from, length, stop);
            }

            public override async Task FlushAsync(CancellationToken stop)
            {
                await exchange.BeginAsync();
                await body.FlushAsync(stop);
            }

            public override void Write(byte[] bytes, int from, int length) =>
                WriteAsync(bytes, from, length, CancellationToken.None).GetAwaiter().GetResult();

            public override void Flush() => FlushAsync(CancellationToken.None).GetAwaiter().GetResult();
            public override bool CanRead => false;
            public override bool CanSeek => false;
            public override bool CanWrite => true;
            public override long Length => throw new NotSupportedException();
            public override long Position
            {
                get => throw new NotSupportedException();
                set => throw new NotSupportedException();
            }
            public override int Read(byte[] to, int from, int length) => throw new NotSupportedException();
            public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();
            public override void SetLength(long value) => throw new NotSupportedException();
        }
    }
}

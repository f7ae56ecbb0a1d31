// The users service on ASP.NET Core's minimal API, StackExchange.Redis and Microsoft.Data.Sqlite.
// Environment: PORT, SQLITE_DB, REDIS_PORT (a cluster is found by itself).
using System;
using System.Collections.Generic;
using System.Net;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.Data.Sqlite;
using Microsoft.Extensions.Logging;
using StackExchange.Redis;

internal static class Program
{
    private static async Task Main()
    {
        int port = int.Parse(Environment.GetEnvironmentVariable("PORT") ?? "8340");
        string redis = Environment.GetEnvironmentVariable("REDIS_PORT") ?? "6379";
        var store = new Store(Environment.GetEnvironmentVariable("SQLITE_DB") ?? "users.db");
        var api = new Api(store, await ConnectionMultiplexer.ConnectAsync("127.0.0.1:" + redis));

        WebApplicationBuilder builder = WebApplication.CreateBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.ConfigureKestrel(options => options.Listen(IPAddress.Loopback, port));
        WebApplication app = builder.Build();
        app.MapGet("/users/{id:long}", (Func<long, Task<IResult>>)api.One);
        app.MapGet("/users", (Func<int?, int?, IResult>)api.Page);
        app.MapPost("/users", (Func<NewUser, Task<IResult>>)api.Create);
        app.MapPut("/users/{id:long}", (Func<long, NewUser, Task<IResult>>)api.Replace);
        app.MapDelete("/users/{id:long}", (Func<long, Task<IResult>>)api.Delete);
        await app.StartAsync();
        Console.WriteLine("listening on http://127.0.0.1:" + port);
        await app.WaitForShutdownAsync();
    }
}

/// <summary>What is answered: cache-aside for one user, the database for everything else.</summary>
internal sealed class Api
{
    private const string Type = "application/json";
    private const int DefaultLimit = 20;
    private const int MaxLimit = 100;
    private static readonly TimeSpan Kept = TimeSpan.FromSeconds(60);
    private static readonly JsonSerializerOptions Json = new JsonSerializerOptions(JsonSerializerDefaults.Web);

    private readonly Store store;
    private readonly ConnectionMultiplexer redis;

    internal Api(Store store, ConnectionMultiplexer redis)
    {
        this.store = store;
        this.redis = redis;
    }

    public async Task<IResult> One(long id)
    {
        IDatabase cache = redis.GetDatabase();
        string key = Key(id);
        RedisValue cached = await cache.StringGetAsync(key);
        if (cached.HasValue) return Results.Bytes((byte[])cached, Type);
        User user = store.One(id);
        if (user == null) return Missing();
        byte[] bytes = JsonSerializer.SerializeToUtf8Bytes(user, Json);
        await cache.StringSetAsync(key, bytes, Kept);
        return Results.Bytes(bytes, Type);
    }

    public IResult Page(int? page, int? limit)
    {
        int number = Math.Max(page ?? 1, 1);
        int size = Math.Min(Math.Max(limit ?? DefaultLimit, 1), MaxLimit);
        return Results.Json(new UserPage { Page = number, Limit = size, Data = store.Page(number, size) }, Json);
    }

    public async Task<IResult> Create(NewUser user)
    {
        User created = await store.Insert(user);
        await Forget(created.Id);
        return Results.Created("/users/" + created.Id, created);
    }

    public async Task<IResult> Replace(long id, NewUser user)
    {
        User replaced = await store.Update(id, user);
        if (replaced == null) return Missing();
        await Forget(id);
        return Results.Json(replaced, Json);
    }

    public async Task<IResult> Delete(long id)
    {
        if (!await store.Delete(id)) return Missing();
        await Forget(id);
        return Results.NoContent();
    }

    private Task Forget(long id) => redis.GetDatabase().KeyDeleteAsync(Key(id));

    private static string Key(long id) => "user:" + id;

    private static IResult Missing() =>
        Results.Json(new Dictionary<string, string> { ["error"] = "User not found" }, Json, Type, 404);
}

/// <summary>Users in SQLite: pooled connections that read, and writes one after the other.</summary>
internal sealed class Store
{
    private const string Columns = "id, name, email, bio, created_at";
    private readonly string source;
    private readonly SemaphoreSlim writing = new SemaphoreSlim(1);

    internal Store(string file)
    {
        source = new SqliteConnectionStringBuilder { DataSource = file, Pooling = true, DefaultTimeout = 5 }.ToString();
        using (SqliteConnection connection = Open()) Command(connection, "PRAGMA journal_mode = WAL").ExecuteNonQuery();
    }

    internal User One(long id)
    {
        using (SqliteConnection connection = Open())
        {
            return First(Command(connection, "SELECT " + Columns + " FROM users WHERE id = $id", ("$id", id)));
        }
    }

    internal List<User> Page(int page, int limit)
    {
        using (SqliteConnection connection = Open())
        {
            string text = "SELECT " + Columns + " FROM users ORDER BY id LIMIT $limit OFFSET $offset";
            return All(Command(connection, text, ("$limit", limit), ("$offset", (long)(page - 1) * limit)));
        }
    }

    internal Task<User> Insert(NewUser user)
    {
        string text = "INSERT INTO users (name, email, bio) VALUES ($name, $email, $bio) RETURNING " + Columns;
        return Write(connection => First(Command(connection, text, Values(user))));
    }

    internal Task<User> Update(long id, NewUser user)
    {
        string text = "UPDATE users SET name = $name, email = $email, bio = $bio WHERE id = $id RETURNING " + Columns;
        var values = new List<(string, object)>(Values(user)) { ("$id", id) };
        return Write(connection => First(Command(connection, text, values.ToArray())));
    }

    internal Task<bool> Delete(long id)
    {
        return Write(connection => Command(connection, "DELETE FROM users WHERE id = $id", ("$id", id)).ExecuteNonQuery() > 0);
    }

    private async Task<T> Write<T>(Func<SqliteConnection, T> write)
    {
        await writing.WaitAsync();
        try
        {
            using (SqliteConnection connection = Open()) return write(connection);
        }
        finally
        {
            writing.Release();
        }
    }

    private SqliteConnection Open()
    {
        var connection = new SqliteConnection(source);
        connection.Open();
        return connection;
    }

    private static (string, object)[] Values(NewUser user) =>
        new (string, object)[] { ("$name", user.Name), ("$email", user.Email), ("$bio", (object)user.Bio ?? DBNull.Value) };

    private static SqliteCommand Command(SqliteConnection connection, string text, params (string, object)[] values)
    {
        SqliteCommand command = connection.CreateCommand();
        command.CommandText = text;
        foreach (var value in values) command.Parameters.AddWithValue(value.Item1, value.Item2);
        return command;
    }

    private static User First(SqliteCommand command)
    {
        List<User> users = All(command);
        return users.Count == 0 ? null : users[0];
    }

    private static List<User> All(SqliteCommand command)
    {
        var users = new List<User>();
        using (command)
        using (SqliteDataReader row = command.ExecuteReader())
        {
            while (row.Read()) users.Add(Read(row));
        }
        return users;
    }

    private static User Read(SqliteDataReader row)
    {
        return new User
        {
            Id = row.GetInt64(0),
            Name = row.GetString(1),
            Email = row.GetString(2),
            Bio = row.IsDBNull(3) ? null : row.GetString(3),
            CreatedAt = row.IsDBNull(4) ? null : row.GetString(4),
        };
    }
}

/// <summary>What a client sends.</summary>
public sealed class NewUser
{
    public string Name { get; set; }
    public string Email { get; set; }
    public string Bio { get; set; }
}

/// <summary>What it gets.</summary>
public sealed class User
{
    public long Id { get; set; }
    public string Name { get; set; }
    public string Email { get; set; }
    public string Bio { get; set; }
    public string CreatedAt { get; set; }
}

/// <summary>Some of them.</summary>
public sealed class UserPage
{
    public int Page { get; set; }
    public int Limit { get; set; }
    public List<User> Data { get; set; }
}

// go-redis. pool=N: connections to each node; auto=1: commands through its AutoPipeline instead of a connection of the pool each.
package main

import (
	"context"
	"errors"

	"peers/harness"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

type peer struct {
	single redis.Cmdable
	// batch queues commands; flush sends them if they do not go by themselves.
	batch func() (queue redis.Cmdable, flush func() error)
}

func (p peer) Get(key string) int {
	value, err := p.single.Get(ctx, key).Result()
	if err != nil {
		panic(err)
	}
	return len(value)
}

func (p peer) Set(key, value string) {
	if err := p.single.Set(ctx, key, value, 0).Err(); err != nil {
		panic(err)
	}
}

func (p peer) Batch(keys []string, wanted int) int {
	queue, flush := p.batch()
	commands := make([]*redis.StringCmd, len(keys))
	for i, key := range keys {
		commands[i] = queue.Get(ctx, key)
	}
	if err := flush(); err != nil {
		panic(err)
	}
	right := 0
	for _, command := range commands {
		if value, err := command.Result(); err == nil && len(value) == wanted {
			right++
		}
	}
	return right
}

func (p peer) Published(commands []harness.Command, value string, isRight func(int) bool) int {
	queue, flush := p.batch()
	replies := make([]redis.Cmder, len(commands))
	for i, command := range commands {
		if command.IsSet {
			replies[i] = queue.Set(ctx, command.Key, value, 0)
		} else {
			replies[i] = queue.Get(ctx, command.Key)
		}
	}
	if err := flush(); err != nil && !errors.Is(err, redis.Nil) {
		panic(err)
	}
	right := 0
	for i, reply := range replies {
		if err := reply.Err(); err != nil && !errors.Is(err, redis.Nil) {
			panic(err)
		}
		if commands[i].IsSet || isRight(len(reply.(*redis.StringCmd).Val())) {
			right++
		}
	}
	return right
}

func pooled(client *redis.ClusterClient) peer {
	return peer{single: client, batch: func() (redis.Cmdable, func() error) {
		pipeline := client.Pipeline()
		return pipeline, func() error {
			_, err := pipeline.Exec(ctx)
			return err
		}
	}}
}

func autoPipelined(client *redis.ClusterClient) peer {
	single, err := client.AutoPipeline()
	if err != nil {
		panic(err)
	}
	queue, err := client.AsyncAutoPipeline()
	if err != nil {
		panic(err)
	}
	return peer{single: single, batch: func() (redis.Cmdable, func() error) {
		return queue, func() error { return nil }
	}}
}

func main() {
	options := harness.Parse()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: options.Addresses, PoolSize: options.Number("pool")})
	if options.Number("auto") == 1 {
		harness.Run(options, autoPipelined(client))
		return
	}
	harness.Run(options, pooled(client))
}

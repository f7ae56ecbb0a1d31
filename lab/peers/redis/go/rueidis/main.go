// rueidis. delay=N: MaxFlushDelay in microseconds; mux=N: 2^N connections to each node.
package main

import (
	"context"
	"time"

	"peers/harness"

	"github.com/redis/rueidis"
)

var ctx = context.Background()

type peer struct{ client rueidis.Client }

func (p peer) Get(key string) int {
	value, err := p.client.Do(ctx, p.client.B().Get().Key(key).Build()).ToString()
	if err != nil {
		panic(err)
	}
	return len(value)
}

func (p peer) Set(key, value string) {
	if err := p.client.Do(ctx, p.client.B().Set().Key(key).Value(value).Build()).Error(); err != nil {
		panic(err)
	}
}

func (p peer) Batch(keys []string, wanted int) int {
	commands := make(rueidis.Commands, 0, len(keys))
	for _, key := range keys {
		commands = append(commands, p.client.B().Get().Key(key).Build())
	}
	right := 0
	for _, result := range p.client.DoMulti(ctx, commands...) {
		if value, err := result.ToString(); err == nil && len(value) == wanted {
			right++
		}
	}
	return right
}

func (p peer) Published(commands []harness.Command, value string, isRight func(int) bool) int {
	built := make(rueidis.Commands, 0, len(commands))
	for _, command := range commands {
		if command.IsSet {
			built = append(built, p.client.B().Set().Key(command.Key).Value(value).Build())
		} else {
			built = append(built, p.client.B().Get().Key(command.Key).Build())
		}
	}
	right := 0
	for i, result := range p.client.DoMulti(ctx, built...) {
		found, err := result.ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			panic(err)
		}
		if commands[i].IsSet || isRight(len(found)) {
			right++
		}
	}
	return right
}

func main() {
	options := harness.Parse()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       options.Addresses,
		DisableCache:      true,
		PipelineMultiplex: options.Number("mux"),
		MaxFlushDelay:     time.Duration(options.Number("delay")) * time.Microsecond,
	})
	if err != nil {
		panic(err)
	}
	harness.Run(options, peer{client})
}

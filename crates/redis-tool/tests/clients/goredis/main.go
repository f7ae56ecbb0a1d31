// go-redis through a tunnel: arguments are the mode, and the host:port of the tunnel. Prints READY, works until a line comes in, then says what it saw.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func connect(protocol int) redis.UniversalClient {
	mode, address := os.Args[1], os.Args[2]
	if mode == "pinned" {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}, Protocol: protocol, MaxRedirects: 20})
	}
	return redis.NewClient(&redis.Options{Addr: address, Protocol: protocol, Password: "of another server", MaxRetries: 20})
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return value
}

func check(isSo bool, what string) {
	if !isSo {
		log.Panic("not so: ", what)
	}
}

func features(protocol int) {
	client := connect(protocol)
	defer client.Close()
	big := bytes.Repeat([]byte("pilotlight"), 1<<20)
	must(client.Set(ctx, "go:big", big, 0).Result())
	check(bytes.Equal(must(client.Get(ctx, "go:big").Bytes()), big), "10 MB")
	must(client.HSet(ctx, "go:h", "a", "1", "b", "2").Result())
	check(len(must(client.HGetAll(ctx, "go:h").Result())) == 2, "a hash")
	replies := must(client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "{go}n", 1, 0)
		pipe.Incr(ctx, "{go}n")
		return nil
	}))
	check(replies[1].(*redis.IntCmd).Val() == 2, "a transaction")
	err := client.Watch(ctx, func(tx *redis.Tx) error {
		must(client.Set(ctx, "{go}n", 7, 0).Result())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Incr(ctx, "{go}n").Err() })
		return err
	}, "{go}n")
	check(errors.Is(err, redis.TxFailedErr), fmt.Sprint("a watched key: ", err))
	must(client.Del(ctx, "{go}q").Result())
	time.AfterFunc(200*time.Millisecond, func() { client.RPush(ctx, "{go}q", "late") })
	check(must(client.BLPop(ctx, 10*time.Second, "{go}q").Result())[1] == "late", "a blocking command")
	subscription := client.Subscribe(ctx, "go:news")
	defer subscription.Close()
	must(subscription.Receive(ctx))
	must(client.Publish(ctx, "go:news", "hello").Result())
	check(must(subscription.ReceiveMessage(ctx)).Payload == "hello", "a message")
	if os.Args[1] == "smart" {
		found := map[string]bool{}
		for n := range 50 {
			must(client.Set(ctx, fmt.Sprint("go:", n), n, 0).Result())
		}
		pages := client.Scan(ctx, 0, "go:[0-9]*", 5).Iterator()
		for pages.Next(ctx) {
			found[pages.Val()] = true
		}
		check(len(found) == 50, fmt.Sprint("a scan: ", len(found)))
	}
}

func main() {
	features(2)
	features(3)
	client := connect(3)
	var isOver atomic.Bool
	var group sync.WaitGroup
	done, maybe := make([]int64, 8), make([]int64, 8)
	key := func(n int) string { return fmt.Sprint("go:count:", n) }
	for n := range done {
		must(client.Set(ctx, key(n), 0, 0).Result())
		group.Add(1)
		go func() {
			defer group.Done()
			for !isOver.Load() {
				if client.Incr(ctx, key(n)).Err() == nil {
					done[n]++
				} else {
					maybe[n]++
					time.Sleep(20 * time.Millisecond)
				}
			}
		}()
	}
	fmt.Println("READY")
	bufio.NewReader(os.Stdin).ReadString('\n')
	isOver.Store(true)
	group.Wait()
	for n := range done {
		now := must(strconv.ParseInt(must(client.Get(ctx, key(n)).Result()), 10, 64))
		// A retry of go-redis's own may count twice what was in doubt.
		isSo := done[n] > 0 && done[n] <= now && now <= done[n]+maybe[n]+100
		check(isSo, fmt.Sprintf("%d done, %d in doubt, %d counted", done[n], maybe[n], now))
	}
	fmt.Println("DONE")
}

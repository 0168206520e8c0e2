// go-redis against a node: see clients/README.md.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	pipelineLength = 1000
	patience       = 30 * time.Second
	pause          = 5 * time.Millisecond
)

var ctx = context.Background()

func main() {
	if len(os.Args) != 4 {
		fail("usage: go-redis HOST PORT PROTOCOL")
	}
	protocol, err := strconv.Atoi(os.Args[3])
	must(err)
	client := redis.NewClient(&redis.Options{
		Addr:     os.Args[1] + ":" + os.Args[2],
		Protocol: protocol,
		// Longer than a node takes to say TIMEOUT, and nothing is sent twice: a count repeated is a count too many.
		ReadTimeout: patience,
		MaxRetries:  -1,
	})
	prefix := fmt.Sprintf("go-redis:%d:", protocol)
	commands(client, prefix)
	pipeline(client, prefix)
	restart(client, prefix)
	fmt.Printf("ok go-redis %s RESP%d\n", version(), protocol)
}

func commands(client *redis.Client, prefix string) {
	key := prefix + "key"
	binary := "\x00\r\n\xff"
	equal(must1(client.Ping(ctx).Result()), "PONG")
	equal(must1(client.Set(ctx, key, binary, time.Hour).Result()), "OK")
	equal(must1(client.Get(ctx, key).Result()), binary)
	if left := must1(client.TTL(ctx, key).Result()); left < 3590*time.Second || left > time.Hour {
		fail("TTL is %v", left)
	}
	if _, err := client.Get(ctx, prefix+"nothing").Result(); !errors.Is(err, redis.Nil) {
		fail("GET of nothing: %v", err)
	}
	if err := client.Incr(ctx, key).Err(); err == nil || !strings.Contains(err.Error(), "not an integer") {
		fail("INCR of text: %v", err)
	}
	equal(must1(client.MSet(ctx, prefix+"a", 1, prefix+"b", 2).Result()), "OK")
	equal(must1(client.MGet(ctx, prefix+"a", prefix+"nothing", prefix+"b").Result()), []any{"1", nil, "2"})
	equal(must1(client.IncrBy(ctx, prefix+"a", 41).Result()), int64(42))
	equal(must1(client.IncrByFloat(ctx, prefix+"b", 0.5).Result()), 2.5)
	found := 0
	for scan := client.Scan(ctx, 0, prefix+"*", 100).Iterator(); scan.Next(ctx); found++ {
	}
	equal(found, 3)
	equal(must1(client.Del(ctx, key, prefix+"a", prefix+"b", prefix+"nothing").Result()), int64(3))
}

func pipeline(client *redis.Client, prefix string) {
	pipe := client.Pipeline()
	var replies []*redis.IntCmd
	for range pipelineLength {
		replies = append(replies, pipe.Incr(ctx, prefix+"pipeline"))
	}
	must1(pipe.Exec(ctx))
	for index, reply := range replies {
		equal(reply.Val(), int64(index+1))
	}
	must(client.Del(ctx, prefix+"pipeline").Err())
}

// The node is killed and started again while this counts.
func restart(client *redis.Client, prefix string) {
	restarted := make(chan struct{})
	go func() {
		bufio.NewReader(os.Stdin).ReadString('\n')
		close(restarted)
	}()
	counter := prefix + "counter"
	must(client.Del(ctx, counter).Err())
	fmt.Println("ready")
	counted := int64(0)
	for over := false; !over; {
		select {
		case <-restarted:
			over = true
		case <-time.After(pause):
			if client.Incr(ctx, counter).Err() == nil {
				counted++
			}
		}
	}
	deadline := time.Now().Add(patience)
	for client.Ping(ctx).Err() != nil {
		if time.Now().After(deadline) {
			fail("not connected again after %v", patience)
		}
		time.Sleep(pause)
	}
	if value := must1(client.Get(ctx, counter).Int64()); value < counted {
		fail("counted %d times, but the counter is %d", counted, value)
	}
	pipeline(client, prefix)
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/redis/go-redis/v9" {
			return module.Version
		}
	}
	return "?"
}

func equal(got, want any) {
	if !reflect.DeepEqual(got, want) {
		panic(fmt.Sprintf("got %#v, want %#v", got, want))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func must1[T any](value T, err error) T {
	must(err)
	return value
}

func fail(format string, values ...any) {
	panic(fmt.Sprintf(format, values...))
}

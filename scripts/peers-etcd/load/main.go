// Puts on etcd in a closed loop: so many clients, each with a connection of its own and one put at a time, keys drawn
// uniformly. Driven by `quorate bench --against etcd=...`, which counts the servers' processor time between the line that
// ends the warm-up and the line that ends the measurement.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

type counted struct {
	Operations   int64   `json:"operations"`
	Seconds      float64 `json:"seconds"`
	LatencyP50Us int64   `json:"latency_p50_us"`
	LatencyP99Us int64   `json:"latency_p99_us"`
	Errors       int64   `json:"errors"`
}

func main() {
	endpoints := flag.String("endpoints", "127.0.0.1:2379", "comma-separated; the clients are spread over them")
	clients := flag.Int("clients", 64, "how many at once")
	seconds := flag.Int("seconds", 3, "of measurement, after a fifth of that as warm-up")
	keys := flag.Int("keys", 10000, "how many")
	size := flag.Int("size", 16, "bytes of a value")
	flag.Parse()
	log.SetFlags(0)

	var counting atomic.Bool
	var errors atomic.Int64
	var firstError sync.Once
	value := strings.Repeat("x", *size)
	latencies := make([][]int64, *clients)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	addresses := strings.Split(*endpoints, ",")
	for client := range *clients {
		connection, err := clientv3.New(clientv3.Config{
			Endpoints:   []string{addresses[client%len(addresses)]},
			DialTimeout: 5 * time.Second,
			// It would warn of every put that the end of the measurement cuts off.
			Logger: zap.NewNop(),
		})
		if err != nil {
			log.Fatal(err)
		}
		random := rand.New(rand.NewSource(int64(client)))
		running.Go(func() {
			defer connection.Close()
			for ctx.Err() == nil {
				key := fmt.Sprintf("bench:%012d", random.Intn(*keys))
				sentAt := time.Now()
				_, err := connection.Put(ctx, key, value)
				switch {
				case ctx.Err() != nil:
				case err != nil:
					errors.Add(1)
					firstError.Do(func() { fmt.Fprintln(os.Stderr, err) })
				case counting.Load():
					latencies[client] = append(latencies[client], time.Since(sentAt).Microseconds())
				}
			}
		})
	}
	measured := time.Duration(*seconds) * time.Second
	time.Sleep(measured / 5)
	counting.Store(true)
	beganAt := time.Now()
	fmt.Println("counting")
	time.Sleep(measured)
	counting.Store(false)
	elapsed := time.Since(beganAt)
	fmt.Println("counted")
	stop()
	running.Wait()
	all := slices.Concat(latencies...)
	slices.Sort(all)
	at := func(quantile float64) int64 {
		if len(all) == 0 {
			return 0
		}
		return all[int(quantile*float64(len(all)-1))]
	}
	line, err := json.Marshal(counted{int64(len(all)), elapsed.Seconds(), at(0.5), at(0.99), errors.Load()})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(line))
}

package harness

import (
	"strconv"
	"strings"
)

const (
	keyCount  = 100_000
	batchSize = 64
	// callers of the published workloads, each with keys of its own
	workers        = 16
	span           = keyCount / workers
	publishedStep  = 10_000_000
	publishedBytes = 512
)

// Workload says what is asked for, and by how many at once.
type Workload struct {
	Name       string
	tasks      int
	prefix     string
	valueBytes int
	setPercent int
	timedEvery uint32 // one step of how many is timed
	// isPublished: batches of single commands on keys in order; every so many of five is a SET
	isPublished bool
	setsOfFive  int
	mayMiss     bool
}

var workloads = map[string]Workload{
	"w1":                  {tasks: 256, prefix: "key", valueBytes: 64, timedEvery: 4},
	"w1k":                 {tasks: 256, prefix: "kib", valueBytes: 1024, timedEvery: 4},
	"w2":                  {tasks: 16, prefix: "key", valueBytes: 64, timedEvery: 1}, // batches
	"w3":                  {tasks: 256, prefix: "key", valueBytes: 64, timedEvery: 4, setPercent: 100},
	"w4":                  {tasks: 256, prefix: "key", valueBytes: 64, timedEvery: 4, setPercent: 20},
	"published-get":       {tasks: workers, prefix: "bench", valueBytes: publishedBytes, timedEvery: 1, isPublished: true, mayMiss: true},
	"published-get-found": {tasks: workers, prefix: "found", valueBytes: publishedBytes, timedEvery: 1, isPublished: true},
	"published-set":       {tasks: workers, prefix: "write", valueBytes: publishedBytes, timedEvery: 1, isPublished: true, setsOfFive: 5},
	"published-mixed":     {tasks: workers, prefix: "mixed", valueBytes: publishedBytes, timedEvery: 1, isPublished: true, setsOfFive: 1, mayMiss: true},
	"w5":                  {tasks: 1, prefix: "{one}", valueBytes: 64, timedEvery: 1},
}

func (w Workload) keys() []string {
	keys := make([]string, keyCount)
	for number := range keys {
		keys[number] = w.key(number)
	}
	return keys
}

func (w Workload) key(number int) string {
	if !w.isPublished {
		return w.prefix + ":" + strconv.Itoa(number)
	}
	start := w.prefix + ":" + strconv.Itoa(number/span*publishedStep+number%span) + ":"
	return start + strings.Repeat("0", publishedBytes-len(start))
}

// isRight says whether a value of this length answers a GET; 0: there was none.
func (w Workload) isRight(length int) bool {
	return length == w.valueBytes || w.mayMiss && length == 0
}

func (w Workload) nextIsSet(random *random) bool {
	return w.setPercent == 100 || w.setPercent > 0 && random.below(100) < w.setPercent
}

// random is xorshift64*.
type random uint64

func newRandom(seed int) random {
	return random(uint64(seed)*0x9E3779B97F4A7C15 | 1)
}

func (r *random) below(bound int) int {
	x := uint64(*r)
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	*r = random(x)
	high := x * 0x2545F4914F6CDD1D >> 32
	return int(high * uint64(bound) >> 32)
}

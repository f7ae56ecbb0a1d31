package harness

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Peer is a client under measurement. It panics when a command fails: what it measured would be worth nothing.
type Peer interface {
	// Get returns the length of the value.
	Get(key string) int
	Set(key, value string)
	// Batch issues GETs together and returns how many values had the length that is wanted.
	Batch(keys []string, wanted int) int
	// Published issues commands together and returns how many were answered rightly.
	Published(commands []Command, value string, isRight func(length int) bool) int
}

// Command is a GET, or a SET of the value.
type Command struct {
	Key   string
	IsSet bool
}

const (
	warmUp int32 = iota
	measured
	over
)

// tally is what one task counted. Errors count in the warm-up, too.
type tally struct {
	answers, errors uint64
	timesNs         []uint32
	_               [64]byte // no cache line shared with the next one
}

// Run runs the workload on the peer and prints the report.
func Run(options Options, peer Peer) {
	workload := options.Workload
	tallies := make([]tally, workload.tasks)
	keys, value := workload.keys(), strings.Repeat("x", workload.valueBytes)
	var phase atomic.Int32
	var tasks sync.WaitGroup
	for id := range tallies {
		task := task{
			workload: workload, peer: peer, keys: keys, value: value, phase: &phase,
			id: id, random: newRandom(id + 1), tally: &tallies[id], batch: make([]string, batchSize),
			commands: make([]Command, batchSize),
		}
		tasks.Go(task.run)
	}
	time.Sleep(options.WarmUp)
	measurement := startMeasurement()
	phase.Store(measured)
	time.Sleep(options.Measured)
	phase.Store(over)
	measurement.stop()
	tasks.Wait()
	measurement.print(options, tallies)
}

type task struct {
	workload Workload
	peer     Peer
	keys     []string
	value    string
	phase    *atomic.Int32
	id       int
	random   random
	tally    *tally
	batch    []string
	commands []Command
	issued   int
}

func (t *task) run() {
	t.tally.timesNs = make([]uint32, 0, 1<<13)
	count := uint32(t.id) // so that the tasks do not all time the same turn
	for {
		phase := t.phase.Load()
		if phase == over {
			return
		}
		count++
		timed := count%t.workload.timedEvery == 0
		var begun time.Time
		if timed {
			begun = time.Now()
		}
		asked, right := t.step()
		t.tally.errors += uint64(asked - right)
		if phase != measured {
			continue
		}
		t.tally.answers += uint64(asked)
		if timed {
			t.tally.timesNs = append(t.tally.timesNs, uint32(min(time.Since(begun), 1<<32-1)))
		}
	}
}

// step returns how many answers were asked for, and how many were right.
func (t *task) step() (asked, right int) {
	if t.workload.Name == "w2" {
		for i := range t.batch {
			t.batch[i] = t.keys[t.random.below(keyCount)]
		}
		return batchSize, t.peer.Batch(t.batch, len(t.value))
	}
	if t.workload.isPublished {
		return batchSize, t.published()
	}
	key := t.keys[t.random.below(keyCount)]
	if t.workload.nextIsSet(&t.random) {
		t.peer.Set(key, t.value)
		return 1, 1
	}
	if t.peer.Get(key) == len(t.value) {
		return 1, 1
	}
	return 1, 0
}

func (t *task) published() int {
	for i := range t.commands {
		t.commands[i] = Command{Key: t.keys[t.id*span+t.issued%span], IsSet: t.issued%5 < t.workload.setsOfFive}
		t.issued++
	}
	return t.peer.Published(t.commands, t.value, t.workload.isRight)
}

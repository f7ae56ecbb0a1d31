package harness

import (
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// measurement is CPU time and clock from START on.
type measurement struct {
	begun         time.Time
	elapsed       time.Duration
	before, after syscall.Rusage
}

func startMeasurement() *measurement {
	fmt.Println("START")
	return &measurement{begun: time.Now(), before: ownUsage()}
}

func (m *measurement) stop() {
	m.elapsed = time.Since(m.begun)
	m.after = ownUsage()
}

// print prints the END line.
func (m *measurement) print(options Options, tallies []tally) {
	var answers, errors uint64
	var timesNs []uint32
	for i := range tallies {
		answers += tallies[i].answers
		errors += tallies[i].errors
		timesNs = append(timesNs, tallies[i].timesNs...)
	}
	slices.Sort(timesNs)
	each := func(total float64) float64 { return total / float64(max(answers, 1)) }
	user := microseconds(m.after.Utime) - microseconds(m.before.Utime)
	system := microseconds(m.after.Stime) - microseconds(m.before.Stime)
	report, err := json.Marshal(map[string]any{
		"workload": options.Workload.Name,
		"ops":      answers,
		"errors":   errors,
		"secs":     m.elapsed.Seconds(),
		"ops_s":    float64(answers) / m.elapsed.Seconds(),
		"cpu_us":   each(user + system),
		"user_us":  each(user),
		"switches": each(float64(switches(m.after) - switches(m.before))),
		"p50":      quantile(timesNs, 0.5),
		"p99":      quantile(timesNs, 0.99),
		"p999":     quantile(timesNs, 0.999),
		"rss_mb":   float64(m.after.Maxrss) / 1024,
	})
	if err != nil {
		panic(err)
	}
	fmt.Printf("END %s\n", report)
}

func ownUsage() (usage syscall.Rusage) {
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return usage
}

func microseconds(time syscall.Timeval) float64 {
	return float64(time.Sec)*1e6 + float64(time.Usec)
}

func switches(usage syscall.Rusage) int64 {
	return usage.Nvcsw + usage.Nivcsw
}

// quantile is in microseconds.
func quantile(sortedNs []uint32, part float64) float64 {
	if len(sortedNs) == 0 {
		return 0
	}
	index := min(int(part*float64(len(sortedNs))), len(sortedNs)-1)
	return float64(sortedNs[index]) / 1e3
}

// Package harness runs the workloads of the Rust harness, with its options and its output.
package harness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Options are the arguments: WORKLOAD key=value…
type Options struct {
	Workload         Workload
	Measured, WarmUp time.Duration
	// Addresses are host:port of the cluster's nodes.
	Addresses []string
	// Tuning are the settings of one client.
	Tuning map[string]string
}

// Parse reads the arguments of this process.
func Parse() Options {
	tuning := map[string]string{"secs": "1", "warm": "1"}
	for _, word := range os.Args[2:] {
		key, value, _ := strings.Cut(word, "=")
		tuning[key] = value
	}
	workload, known := workloads[os.Args[1]]
	if !known {
		panic("no workload " + os.Args[1])
	}
	workload.Name = os.Args[1]
	options := Options{
		Workload: workload,
		Measured: seconds(tuning["secs"]),
		WarmUp:   seconds(tuning["warm"]),
		Tuning:   tuning,
	}
	for _, port := range strings.Split(tuning["ports"], ",") {
		options.Addresses = append(options.Addresses, "127.0.0.1:"+port)
	}
	return options
}

// Number is a setting that is a number, or 0.
func (o Options) Number(key string) int {
	text, set := o.Tuning[key]
	if !set {
		return 0
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		panic(fmt.Sprintf("%s: not a number: %s", key, text))
	}
	return number
}

func seconds(text string) time.Duration {
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("not a number of seconds: " + text)
	}
	return time.Duration(number * float64(time.Second))
}

package shim

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Stats describes the load of the node's machine. Free never exceeds total.
type Stats struct {
	CPUs  int       `json:"cpuCount"`
	Load  []float64 `json:"loadAverage,omitempty"` // of 1, 5 and 15 minutes, or nil
	Total int64     `json:"memoryTotalBytes"`
	Free  int64     `json:"memoryFreeBytes"`
}

// MachineStats returns the load of this machine. It returns false on systems other than Linux.
func MachineStats() (Stats, bool) {
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return Stats{}, false
	}
	s := Stats{CPUs: runtime.NumCPU()}
	var ok bool
	if s.Total, s.Free, ok = readMemory(memory); !ok {
		return Stats{}, false
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		s.Load = readLoad(string(load))
	}
	return s, true
}

// readMemory reads /proc/meminfo.
func readMemory(text []byte) (total, free int64, ok bool) {
	free = -1
	for line := range bytes.Lines(text) {
		name, rest, _ := strings.Cut(string(line), ":")
		fields := strings.Fields(rest)
		if len(fields) != 2 || fields[1] != "kB" {
			continue
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil || n < 0 || n > 1<<52 {
			continue
		}
		switch name {
		case "MemTotal":
			total = n << 10
		case "MemAvailable":
			free = n << 10
		}
	}
	return total, min(free, total), total > 0 && free >= 0
}

// readLoad reads /proc/loadavg; nil if it cannot be read.
func readLoad(text string) []float64 {
	fields := strings.Fields(text)
	if len(fields) < 3 {
		return nil
	}
	load := make([]float64, 3)
	for i := range load {
		n, err := strconv.ParseFloat(fields[i], 64)
		if err != nil || !(n >= 0 && n < 1e6) {
			return nil
		}
		load[i] = n
	}
	return load
}

//go:build !race

package hub

// slowdown is the factor by which the race detector slows a check down more than the reference
// work.
const slowdown = 1

//go:build race

package hub

// slowdown is the factor by which the race detector slows tests down.
const slowdown = 20

//go:build race

package hub

// slowdown is how much more the race detector makes everything take.
const slowdown = 20

//go:build !race

package board

// slowdown is how much more the race detector makes everything take.
const slowdown = 1

//go:build !race

package mqtt

const raced = false

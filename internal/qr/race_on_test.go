//go:build race

package qr

const raceDetector = true

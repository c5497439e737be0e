package board

import (
	"sync"
	"time"
)

// What crosses the bus can get lost, also the end of an answer: a server of the bus that dies
// takes with it what it has not passed on. So whoever answers says now and then that the answer
// is still to come, and whoever waits does not wait for one that is not.
const (
	// acceptWait is how long an asker waits for the first word of whoever is to answer, and how
	// often it looks whether that one still answers.
	acceptWait = 2 * time.Second
	// aliveEvery is how often whoever answers says that the answer is still to come.
	aliveEvery = 2 * time.Second
	// silentLooks is after how many looks in a row an answer of which nothing was heard is lost.
	// Somebody who waits is to be told within 10 s.
	silentLooks = 4
)

// stillHere calls say from another goroutine every aliveEvery, until the function that it
// returns was called, which waits for the last say to return.
func stillHere(say func()) (end func()) {
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(aliveEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				say()
			case <-stop:
				return
			}
		}
	})
	return func() {
		close(stop)
		done.Wait()
	}
}

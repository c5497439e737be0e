package upstream

import "time"

// timings are the durations that tests shorten.
type timings struct {
	// connectTimeout limits connecting and the handshake; startTimeout is the same for a
	// command, since npx and similar tools download the program first.
	connectTimeout, startTimeout time.Duration
	// listTimeout limits reading the whole tool list.
	listTimeout time.Duration
	// toolsGrace is how long the tools of a disconnected upstream stay offered, so that a
	// restart does not change the lists of all clients twice.
	toolsGrace time.Duration
	// callWait is how long a call waits for a disconnected upstream.
	callWait time.Duration
	// minBackoff is the delay before the second attempt; it doubles with each, up to maxBackoff,
	// or to maxAuthBackoff if the token is wrong, because servers count failed logins.
	minBackoff, maxBackoff, maxAuthBackoff time.Duration
	// healthInterval is how often a server is pinged, and healthTimeout how long it may take to
	// answer.
	healthInterval, healthTimeout time.Duration
	// refreshDelay is the delay between a change notification and reading the list, so that
	// several notifications of one change cause one read.
	refreshDelay time.Duration
	// listInterval is how often the list is read if the server does not announce changes.
	listInterval time.Duration
	// idleAfter is how long the connection of a member stays open without being used, yieldAfter
	// the same while others wait for one, and seatInterval is how often these ask for it.
	idleAfter, yieldAfter, seatInterval time.Duration
	// answerTimeout is how long a caller may take to answer a request of the server.
	answerTimeout time.Duration
}

var defaultTimings = timings{
	connectTimeout: 15 * time.Second, startTimeout: time.Minute, listTimeout: time.Minute,
	toolsGrace: 2 * time.Minute, callWait: 10 * time.Second,
	minBackoff: time.Second, maxBackoff: time.Minute, maxAuthBackoff: 10 * time.Minute,
	healthInterval: 30 * time.Second, healthTimeout: 10 * time.Second,
	refreshDelay: 100 * time.Millisecond, listInterval: 5 * time.Minute, answerTimeout: 10 * time.Minute,
	idleAfter: 10 * time.Minute, yieldAfter: 15 * time.Second, seatInterval: time.Second / 2,
}

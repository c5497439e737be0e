package talk

import (
	"errors"
	"fmt"
)

// Code says why an answer did not come about, for programs and for metrics.
type Code string

// The reasons why an answer does not come about.
const (
	Offline   Code = "offline"    // the bot is not plugged in
	Busy      Code = "busy"       // too many wait for the bot already
	TimedOut  Code = "timeout"    // the bot was silent for too long
	BotFailed Code = "bot_failed" // the bot said that it failed
	// Unreachable: we could not connect to the bot, so that it has said nothing.
	Unreachable Code = "bot_unreachable"
	Lost        Code = "lost"       // the instance that held the bot went away in mid-answer
	NoAnswer    Code = "no_answer"  // the bot finished and had said nothing
	Unreadable  Code = "unreadable" // what was said cannot be used (a bad picture, an empty question)
	Stopping    Code = "stopping"   // the server stops, and takes no new turns
	// NotKept: the answer was told, but neither the database nor the disk has taken it.
	NotKept  Code = "not_kept"
	Internal Code = "internal" // our own fault
)

// Failure is why an answer did not come about, or broke off.
type Failure struct {
	Code Code `json:"code"`
	// Told is a few words for the person: short, without secrets, in their language, and
	// ours: what a far side says of itself is a cause. It may be empty.
	Told string `json:"told,omitempty"`
	// Cause is for the owner and the log, not for the person.
	Cause string `json:"cause,omitempty"`
}

// Fail makes a Failure whose cause is err (which may be nil).
func Fail(code Code, told string, err error) *Failure {
	f := &Failure{Code: code, Told: told}
	if err != nil {
		f.Cause = err.Error()
	}
	return f
}

func (f *Failure) Error() string {
	switch {
	case f.Cause != "":
		return fmt.Sprintf("%s: %s", f.Code, f.Cause)
	case f.Told != "":
		return fmt.Sprintf("%s: %s", f.Code, f.Told)
	}
	return string(f.Code)
}

// AsFailure finds the Failure in err, or makes one of code [BotFailed] out of an
// error that has none. It returns nil for nil.
func AsFailure(err error) *Failure {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	return &Failure{Code: BotFailed, Cause: err.Error()}
}

// ErrHungUp is the cause of a bot's ended context when the asker went away and
// the bot's owner wants answers that nobody waits for to be stopped.
var ErrHungUp = errors.New("the asker went away")

// ErrMoved is returned by a bot whose far side has connected to another instance before it was
// asked. It has emitted nothing, and is to be asked there.
var ErrMoved = errors.New("the bot has connected to another instance")

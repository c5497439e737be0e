package talk

import (
	"errors"
	"fmt"
)

// Code is the stable reason why a turn failed, for programs and metrics.
type Code string

// Reasons why a turn fails.
const (
	Offline   Code = "offline"    // the bot is not connected
	Busy      Code = "busy"       // too many turns wait for the bot
	TimedOut  Code = "timeout"    // the bot sent nothing before the timeout
	BotFailed Code = "bot_failed" // the bot reported an error
	// Unreachable: the connection to the bot could not be made.
	Unreachable Code = "bot_unreachable"
	Lost        Code = "lost"       // the instance that held the bot was lost during the answer
	NoAnswer    Code = "no_answer"  // the bot finished without an answer
	Unreadable  Code = "unreadable" // the message is invalid (a bad image, an empty question)
	// NotAllowed: the asker may not ask the bot, or not now; Told says why.
	NotAllowed Code = "not_allowed"
	// NotHeard: no speech engine could say what the person said, so that no bot was asked.
	NotHeard Code = "not_heard"
	Stopping Code = "stopping" // the server is stopping and accepts no new turns
	// NotSaved: the answer was sent, but could be written neither to the database nor to disk.
	NotSaved Code = "not_kept"
	Internal Code = "internal" // an error of this server
)

// Failure is the reason why a turn has no answer, or an incomplete one.
type Failure struct {
	Code Code `json:"code"`
	// Told is a short text for the person, in their language and without secrets. It is always
	// this project's own text; a peer's error text goes into Cause. It may be empty.
	Told string `json:"told,omitempty"`
	// Cause is for the owner and the log, not for the person.
	Cause string `json:"cause,omitempty"`
}

// Fail returns a Failure with err, which may be nil, as its cause.
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

// AsFailure returns the Failure that err is or wraps, or else a Failure of code [BotFailed] with
// err as its cause. It returns nil for nil.
func AsFailure(err error) *Failure {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	return &Failure{Code: BotFailed, Cause: err.Error()}
}

// ErrDisconnected is the cancellation cause of a bot's context when the asker disconnected and the
// bot is configured to stop then.
var ErrDisconnected = errors.New("the asker went away")

// ErrStopped is the cancellation cause of an asker who stopped the answer. The bot is then stopped
// even if it is configured to finish after a disconnect; what it said so far is the answer.
var ErrStopped = errors.New("the asker stopped the answer")

// ErrMoved is returned by a bot whose peer connected to another instance before it was asked. The
// bot has emitted nothing; the hub asks it on the other instance.
var ErrMoved = errors.New("the bot has connected to another instance")

// ErrRevised is the error of a turn whose question was not what the person said in the end; see
// [Turn.Commit]. The turn is not recorded, and is no failure.
var ErrRevised = errors.New("the person said something else")

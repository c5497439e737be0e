package engines

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
	"patchbay/internal/voice/engine"
)

// tryTimeout limits the test of an engine.
const tryTimeout = 20 * time.Second

// trySentence is what an engine says in a test. Any voice takes between tryShortest and tryLongest
// for it: outside of them its samples are taken for samples of another rate.
const (
	trySentence = "One, two, three, four, five."
	tryShortest = 600 * time.Millisecond
	tryLongest  = 8 * time.Second
)

// Texts of the report.
const (
	CheckName     = i18n.Message("speech engine %s")
	msgFailed     = i18n.Message("%[1]s (%[2]v)")
	msgHears      = i18n.Message("it listens")
	msgSpeaks     = i18n.Message("it speaks")
	msgBoth       = i18n.Message("it listens and speaks")
	msgModel      = i18n.Message("the speech engine does not know its model or voice")
	msgRate       = i18n.Message("the speech engine's sound has the wrong sample rate: a sentence of two seconds lasts %s")
	msgSilent     = i18n.Message("the speech engine sends no sound that can be played")
	AdviceAddress = i18n.Message("Set the address and the key in the configuration: %s")
	AdviceProgram = i18n.Message("Correct the program and its arguments in the configuration: %s")
	AdviceEngine  = i18n.Message("Change it: patchbay voice engine set %s name=value")
)

// Trial is what a test of an engine found.
type Trial struct {
	// Listen and Speak are how long it took to understand and until there was sound; 0 if it was
	// not tried.
	Listen, Speak time.Duration
	// Problem is what people are told, and Cause the details, without secrets; zero: all is well.
	Problem i18n.Text
	Cause   string
}

// Try has an engine speak a sentence and listen to it, or to a second of silence if it does not
// speak, which may cost a little.
func Try(ctx context.Context, e engine.Engine) (t Trial) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	samples := make([]int16, engine.Rate)
	if e.Speaker != nil {
		said, err := Say(ctx, e, trySentence, engine.Rate)
		length := time.Duration(len(said.Samples)) * time.Second / engine.Rate
		switch {
		case err != nil:
			return failedTrial(err)
		case length < tryShortest || length > tryLongest:
			return Trial{Problem: msgRate.With(length.Round(10 * time.Millisecond)), Cause: "sample rate"}
		}
		t.Speak, samples = said.First, said.Samples
	}
	if e.Listener != nil {
		heard, err := Hear(ctx, e, samples, "")
		if err != nil {
			return failedTrial(err)
		}
		t.Listen = heard.Took
	}
	return t
}

func failedTrial(err error) Trial {
	t := Trial{Problem: Explain(err), Cause: err.Error()}
	if e := engine.AsError(err); e != nil {
		t.Cause = e.Err.Error()
	}
	return t
}

// Explain returns what people are told of an error of an engine.
func Explain(err error) i18n.Text {
	e := engine.AsError(err)
	switch {
	case errors.Is(err, errSilent):
		return msgSilent.With()
	case e == nil:
		return (&engine.Error{Class: engine.Timeout}).Text()
	case e.Class == engine.Input && mentions(e.Err.Error(), "model", "voice", "speaker"):
		return msgModel.With()
	}
	return e.Text()
}

func mentions(text string, words ...string) bool {
	text = strings.ToLower(text)
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// Check reports whether an engine listens and speaks, which may cost a little. Advice is what to do
// if not.
func Check(ctx context.Context, r *check.Report, name string, advice i18n.Message, e engine.Engine) {
	found := msgBoth
	switch {
	case e.Speaker == nil:
		found = msgHears
	case e.Listener == nil:
		found = msgSpeaks
	}
	t := Try(ctx, e)
	if !t.Problem.IsZero() {
		r.Fail(CheckName.With(name), msgFailed.With(t.Problem.In(r.Lang), t.Cause), advice.With(name))
		return
	}
	r.OK(CheckName.With(name), found.With())
}

// Heard is what an engine understood.
type Heard struct {
	engine.Transcript
	Took time.Duration // after the end of the speech
}

// Hear has an engine understand samples at [engine.Rate].
func Hear(ctx context.Context, e engine.Engine, samples []int16, language string) (Heard, error) {
	u, err := e.Listener.Listen(ctx, engine.Hints{Language: language})
	if err != nil {
		return Heard{}, err
	}
	defer u.Close()
	if err := errors.Join(u.Write(samples), u.Finish()); err != nil {
		return Heard{}, err
	}
	began := time.Now()
	for {
		t, err := u.Next()
		switch {
		case errors.Is(err, io.EOF):
			return Heard{Took: time.Since(began)}, nil
		case err != nil || t.Final:
			return Heard{t, time.Since(began)}, err
		}
	}
}

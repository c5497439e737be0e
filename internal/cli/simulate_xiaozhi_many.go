package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/sim"
)

const (
	// manyEvery is how often the progress is printed.
	manyEvery = 5 * time.Second
	// manyTries is how often a board tries to connect before it gives up, as firmware does.
	manyTries = 10
	// manyPause is the pause between an answer and the next question, so that boards do not stay in
	// step.
	manyPause = 500 * time.Millisecond
)

// boardGroup is a group of simulated boards.
type boardGroup struct {
	sh     *shell
	cmd    *simulateXiaozhiCmd
	speech [][]byte
	boards []*sim.Board
	wg     sync.WaitGroup

	on, failed, asking atomic.Int64
	mu                 sync.Mutex
	answers            int
	firsts             []time.Duration // from the end of a question to the first sound
	why                error           // first error
}

// many starts many boards, and talks to some of them.
func (c *simulateXiaozhiCmd) many(ctx context.Context, sh *shell, opt sim.Options, speech [][]byte) error {
	m := &boardGroup{sh: sh, cmd: c, speech: speech}
	opt.Tries = manyTries
	for i := range c.Count {
		one := opt
		one.Dial = sim.DialFrom(i)
		m.boards = append(m.boards, sim.New(one))
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	progress := make(chan struct{})
	go func() {
		defer close(progress)
		m.progress(running)
	}()
	m.startAll(running)
	m.wait(running)
	cancel()
	m.wg.Wait()
	<-progress
	f := m.figures()
	m.close()
	if err := sh.result(f, func() { sh.figures(&f) }); err != nil {
		return err
	}
	for _, v := range f.Violations {
		fmt.Fprintln(sh.stderr, msgBroken.In(sh.lang, plain(sim.Violation(v).String())))
	}
	if m.why != nil {
		return i18n.Message("%d operations failed; the first: %v").Errorf(m.failed.Load(), m.why)
	}
	if len(f.Violations) > 0 {
		return i18n.Message("the server violates the boards' protocol in %d ways, see above").Errorf(len(f.Violations))
	}
	return nil
}

// startAll starts the boards at the requested rate.
func (m *boardGroup) startAll(ctx context.Context) {
	began := time.Now()
	for i, b := range m.boards {
		due := began.Add(time.Duration(float64(i) / m.cmd.perSecond * float64(time.Second)))
		if netx.Wait(ctx, time.Until(due)) != nil {
			return
		}
		m.wg.Go(func() { m.runBoard(ctx, b, i < m.cmd.Talk) })
	}
}

// wait waits until all boards have started or failed, and then for the requested duration.
func (m *boardGroup) wait(ctx context.Context) {
	for int(m.on.Load()+m.failed.Load()) < len(m.boards) {
		if netx.Wait(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
	_ = netx.Wait(ctx, m.cmd.For)
}

// runBoard runs one board.
func (m *boardGroup) runBoard(ctx context.Context, b *sim.Board, talked bool) {
	if err := b.Boot(ctx); err != nil {
		if ctx.Err() == nil {
			m.fail(err)
		}
		return
	}
	m.on.Add(1)
	if !talked {
		return
	}
	m.asking.Add(1)
	defer m.asking.Add(-1)
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, boardAskLimit)
		a, err := b.Ask(limited, m.speech)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, sim.ErrIdle): // the server has ended the conversation
		case err != nil:
			m.fail(fmt.Errorf("ask: %w", err))
		default:
			m.mu.Lock()
			m.answers++
			if a.FirstAudio > 0 {
				m.firsts = append(m.firsts, a.FirstAudio)
			}
			m.mu.Unlock()
		}
		_ = netx.Wait(ctx, manyPause)
	}
}

func (m *boardGroup) fail(err error) {
	m.failed.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.why == nil {
		m.why = err
	}
}

const msgMany = i18n.Message("%s  on %d, failed %d, talking %d, answers %d, packets sent %d, received %d, gaps %d")

// progress prints the progress until ctx ends.
func (m *boardGroup) progress(ctx context.Context) {
	began := time.Now()
	tick := time.NewTicker(manyEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		f := m.figures()
		fmt.Fprintln(m.sh.stderr, msgMany.In(m.sh.lang, time.Since(began).Round(time.Second), m.on.Load(),
			m.failed.Load(), m.asking.Load(),
			f.Answers, f.Sent, f.Received, f.Underruns))
	}
}

// figures returns the figures of all boards so far.
func (m *boardGroup) figures() boardFigures {
	var t sim.Total
	for _, b := range m.boards {
		t.Add(b.Report())
	}
	f := figuresOf(&t)
	m.mu.Lock()
	defer m.mu.Unlock()
	f.Answers, f.FirstSound, f.Failed = m.answers, spreadIn(m.firsts), int(m.failed.Load())
	return f
}

func (m *boardGroup) close() {
	var all sync.WaitGroup
	for _, b := range m.boards {
		all.Go(b.Close)
	}
	all.Wait()
}

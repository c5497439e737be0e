package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/account"
	"patchbay/internal/app"
	"patchbay/internal/hub"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/store"
)

// amount is the number of boards, points and turns.
type amount struct{ boards, points, turns int }

// filler fills a server.
type filler struct {
	*app.Base
	amount
	url    string
	now    time.Time
	person store.Person
	bots   []store.Bot
}

func (f *filler) fill(ctx context.Context) (err error) {
	if f.person, err = f.Accounts.AddPerson(ctx, "ada", account.RoleAdmin, "en", "correct horse"); err != nil {
		return err
	}
	for i := range 20 {
		b, _, err := f.Registry.Add(ctx, hub.NewBot{Owner: f.person.ID, Name: fmt.Sprintf("Bot %d", i+1),
			Kind: "echo", Description: "Says back what it is told."})
		if err != nil {
			return err
		}
		f.bots = append(f.bots, b)
	}
	for i := range 20 {
		if _, _, err := f.Accounts.AddKey(ctx, account.NewKey{Person: f.person.ID, Name: fmt.Sprintf("Key %d", i+1),
			Scopes: []string{account.ScopeMCP}}); err != nil {
			return err
		}
	}
	for _, part := range []func(context.Context) error{f.fillBoards, f.fillPoints, f.fillTurns, f.fillCalls} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// fillBoards adds sleeping voice boards. Their tools are those that a simulated board has reported.
func (f *filler) fillBoards(ctx context.Context) error {
	if f.boards == 0 {
		return nil
	}
	first, err := f.firstBoard(ctx)
	if err != nil {
		return err
	}
	for i := 1; i < f.boards; i++ {
		d, code, err := f.Accounts.DeviceSeen(ctx, store.DeviceCall{
			Kind: xiaozhi.Kind, Hardware: fmt.Sprintf("02:00:00:00:%02x:%02x", i>>8, i&255), Client: uuid.NewString(),
			Article: "bread-compact-wifi", At: time.Now(),
		})
		if err != nil {
			return err
		}
		if err := f.Store.Devices.SetCatalog(ctx, d.Number, first); err != nil {
			return err
		}
		if _, err := f.Accounts.ApproveByCode(ctx, account.NewDevice{Person: f.person.ID, Code: code,
			Name: fmt.Sprintf("Board %d", i+1), Bot: f.bots[i%len(f.bots)].Number}); err != nil {
			return err
		}
	}
	return nil
}

// firstBoard boots a simulated board, and returns what the server has stored about it.
func (f *filler) firstBoard(ctx context.Context) (json.RawMessage, error) {
	var device store.Device
	b := sim.New(sim.Options{OTA: f.url + "/xiaozhi/ota/", Scale: 0.01, Slack: time.Minute, OnEvent: func(e sim.Event) {
		if e.Kind == sim.EventCode {
			// On an error the board is never approved.
			device, _ = f.Accounts.ApproveByCode(ctx, account.NewDevice{Person: f.person.ID, Code: e.Text,
				Name: "Board 1", Bot: f.bots[0].Number})
		}
	}})
	defer b.Close()
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := b.Boot(limit); err != nil {
		return nil, err
	}
	if err := b.Wake(limit); err != nil {
		return nil, err
	}
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		text, err := f.Store.Devices.Catalog(ctx, device.Number)
		if err == nil && len(text) > 100 || err != nil && !errors.Is(err, store.ErrNotFound) {
			tick.Stop()
			return text, err
		}
		select {
		case <-tick.C:
		case <-limit.Done():
			tick.Stop()
			return nil, errors.New("the board's tools are not known")
		}
	}
}

var subjects = strings.Fields("recall spacing photosynthesis algebra poetry chemistry economics systems grammar vocabulary thermodynamics biology history geography physics probability networks compilers")

// fillPoints adds knowledge points, two thirds of which have been reviewed and some hundred are
// due.
func (f *filler) fillPoints(ctx context.Context) error {
	var decks []string
	for i := range 10 {
		d := store.Deck{ID: uuid.NewString(), Person: f.person.ID, Name: fmt.Sprintf("Deck %d", i+1),
			Settings: json.RawMessage("{}"), Created: f.now}
		if err := f.Store.Learn.AddDeck(ctx, d); err != nil {
			return err
		}
		decks = append(decks, d.ID)
	}
	in := f.Store.Learn.NewImport(f.person.ID, uuid.NewString())
	var rows []store.NewPoint
	for i := range f.points {
		rows = append(rows, f.point(i, decks[i%len(decks)]))
		if len(rows) == 1000 || i == f.points-1 {
			if err := in.Stage(ctx, rows); err != nil {
				return err
			}
			rows = nil
		}
	}
	return in.Finish(ctx, store.ImportEdits{})
}

func (f *filler) point(i int, deck string) store.NewPoint {
	subject, other := subjects[i%len(subjects)], subjects[(i/7)%len(subjects)]
	created, today := f.now.Add(-time.Duration(i)*time.Minute), store.DateOf(f.now)
	p := store.Point{
		ID: uuid.NewString(), Deck: deck, InPlan: true, Created: created, Updated: created,
		Tags:     []string{subject, fmt.Sprintf("chapter-%d", i%200)},
		Question: fmt.Sprintf("What is fact number %d about %s?", i, subject),
		Answer:   fmt.Sprintf("It says that **%s** depends on *%s* in %d ways:\n\n- as chapter %d explains\n- and as experiments show", subject, other, i%9, i%200),
	}
	p.Words = learn.IndexWords(p.Question, p.Answer, p.Tags...)
	n := store.NewPoint{Point: p}
	sitting := store.Sitting{ID: uuid.NewString(), Day: today, Number: 1, Created: created}
	if i%3 == 0 {
		n.Point.Card.Due = today
		n.Sittings = append(n.Sittings, sitting)
		return n
	}
	due, last := today+store.Day(i%300)-1, created.Add(-240*time.Hour)
	n.Point.Card = store.Card{Phase: store.Review, Stability: 20, Difficulty: 5, Due: due, Reps: 3, LastAt: last,
		LastDay: today - 10}
	for k := range 3 {
		at := last.Add(-time.Duration(2-k) * 72 * time.Hour)
		n.Sittings = append(n.Sittings, store.Sitting{ID: uuid.NewString(), Day: today - 10, Number: k + 1,
			Created: created, Completed: at, Recall: "I remember"})
		n.Log = append(n.Log, store.LogEntry{ID: uuid.NewString(), Kind: store.LogReview, At: at, Day: store.DateOf(at),
			Grade: store.Good, Queue: store.QueueDay, Score: -1})
	}
	sitting.Day, sitting.Number = due, 4
	n.Sittings = append(n.Sittings, sitting)
	return n
}

// writers is the number of concurrent writers of turns, which share commits.
const writers = 64

// fillTurns adds turns, one every six seconds, of which one in fifty has failed.
func (f *filler) fillTurns(ctx context.Context) error {
	todo, errs := make(chan int), make(chan error, writers)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for i := range todo {
				turn, said := f.turn(i)
				if err := f.Store.Traces.Finish(ctx, turn, said); err != nil {
					errs <- err
					cancel()
					return
				}
			}
		})
	}
	for i := 0; i < f.turns && ctx.Err() == nil; i++ {
		select {
		case todo <- i:
		case <-ctx.Done():
		}
	}
	close(todo)
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return ctx.Err()
	}
}

func (f *filler) turn(i int) (store.Trace, *store.Exchange) {
	b := f.bots[i%len(f.bots)]
	t := store.Trace{
		Turn: uuid.NewString(), Bot: b.Number, Owner: f.person.ID,
		Kind: "echo", Channel: []string{"rokid", "xiaozhi", "console"}[i%3], Person: fmt.Sprintf("wearer-%d", i%100),
		Conversation: fmt.Sprintf("c-%d", i/10), Instance: "bench", At: f.now.Add(-time.Duration(i) * 6 * time.Second),
		Queue: time.Millisecond, First: time.Duration(200+i%900) * time.Millisecond,
		Total: time.Duration(1500+i%4000) * time.Millisecond, Pieces: 12, Bytes: 400, Outcome: "done",
	}
	if i%50 == 0 {
		t.Outcome, t.Code, t.Cause = "failed", "offline", "nobody was there"
	}
	e := &store.Exchange{Turn: t.Turn, Bot: t.Bot, Person: t.Person, Conversation: t.Conversation, At: t.At,
		Question: "What is the weather like?", Answer: "It is fine, and will stay so until the evening."}
	return t, e
}

// fillCalls adds as many calls of tools.
func (f *filler) fillCalls(ctx context.Context) error {
	var calls []store.Call
	for i := range f.turns {
		calls = append(calls, store.Call{
			ID: uuid.NewString(), At: f.now.Add(-time.Duration(i) * 6 * time.Second), Person: f.person.ID,
			Bot: f.bots[i%len(f.bots)].Number, Channel: "mcp", Program: "bench",
			Provider: fmt.Sprintf("xiaozhi:%d", i%1000+1),
			Tool:     "self.audio_speaker.set_volume", Instance: "bench", Took: time.Duration(i%900) * time.Millisecond,
			Bytes: 100, Outcome: "done",
		})
		if len(calls) == 3200 || i == f.turns-1 {
			if err := f.Store.Calls.Add(ctx, calls); err != nil {
				return err
			}
			calls = calls[:0]
		}
	}
	return nil
}

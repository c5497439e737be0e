package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/embed"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// LearnOptions returns the configured options of Learn, without a model.
func LearnOptions(b *Base, log *slog.Logger) (learn.Options, error) {
	c := b.Config.Learn
	fetcher, _, err := fetchers(b.Config, log, nil)
	if err != nil {
		return learn.Options{}, err
	}
	o := learn.Options{Store: b.Store, Logger: log, Zone: localZone(), MediaTotal: int64(c.MediaSize),
		Dial: fetcher.Dial}
	if zone, err := time.LoadLocation(c.TimeZone); err == nil && c.TimeZone != "" {
		o.Zone = zone
	}
	if c.EmbeddingsURL != "" {
		client, err := embed.New(embed.Options{URL: c.EmbeddingsURL, Key: c.EmbeddingsKey, Model: c.EmbeddingsModel,
			Dims: c.EmbeddingsDims})
		if err != nil {
			return o, fmt.Errorf("learn.embeddings: %w", err)
		}
		o.Embedder = client
	}
	return o, nil
}

// timerZone returns a function with the time zone of a person: the one of their settings for
// learning, of their account, of voice boards, or the server's.
func timerZone(b *Base) func(context.Context, string) *time.Location {
	usual := boardZone(b)
	return func(ctx context.Context, person string) *time.Location {
		var p learn.Profile
		row, err := b.Store.Learn.Learner(ctx, person)
		if err == nil {
			err = json.Unmarshal(row.Settings, &p)
		}
		if err != nil {
			return usual
		}
		return p.Calendar(row.Zone, usual).Zone
	}
}

// boardZone returns the time zone of voice boards, or the server's.
func boardZone(b *Base) *time.Location {
	if zone, err := time.LoadLocation(b.Config.XiaoZhi.Zone); err == nil && b.Config.XiaoZhi.Zone != "" {
		return zone
	}
	return localZone()
}

// localZone returns the server's time zone, with its name if it can be found, because people and
// the review log show it.
func localZone() *time.Location {
	name := os.Getenv("TZ")
	if name == "" {
		if path, err := filepath.EvalSymlinks("/etc/localtime"); err == nil {
			_, name, _ = strings.Cut(path, "zoneinfo/")
		}
	}
	if zone, err := time.LoadLocation(strings.TrimPrefix(name, ":")); err == nil && name != "" {
		return zone
	}
	if time.Now().Location() == time.UTC || time.Local.String() == "UTC" {
		return time.UTC
	}
	return time.Local
}

// dueReviews returns a function that counts a person's remaining reviews of today.
func dueReviews(points *learn.Service) func(context.Context, string) (int, error) {
	return func(ctx context.Context, person string) (int, error) {
		q, err := points.Queue(ctx, person, learn.QueueFilter{Limit: 1})
		if err != nil {
			return 0, err
		}
		return q.Left.Total(), nil
	}
}

// learnChannel is the channel of turns in which a bot grades for Learn. Those turns may call no
// tools.
const learnChannel = "learn"

// newModel returns a function with which Learn asks a person's bots.
func newModel(h *hub.Hub) learn.Model {
	return func(ctx context.Context, person string, p learn.Prompt) (string, error) {
		bot, err := modelOf(ctx, h.Registry, h.Store, person, p.Bot)
		if err != nil {
			return "", err
		}
		turn := &talk.Turn{
			Bot: bot.Number, Channel: learnChannel, Person: "learn:" + person, Asker: person, Lang: i18n.Chinese, Depth: 1,
			// Every question is a conversation of its own.
			Conversation: uuid.NewString(), Parts: []talk.Part{{Text: p.Text}},
		}
		if p.Image != nil {
			turn.Parts = append(turn.Parts, talk.Part{Image: p.Image})
		}
		var answer strings.Builder
		err = h.Answer(ctx, turn, func(e talk.Event) error {
			if e.Kind == talk.KindText {
				if answer.Len()+len(e.Text) > maxJudgement {
					return errLongAnswer
				}
				answer.WriteString(e.Text)
			}
			return nil
		})
		return answer.String(), err
	}
}

// maxJudgement limits the answer of a model that Learn reads, in bytes.
const maxJudgement = 64 << 10

var errLongAnswer = errors.New("the model's answer is too long")

// modelOf returns the bot that grades for a person: the named one, or the first one that is a
// model.
func modelOf(ctx context.Context, r *hub.Registry, db *store.DB, person, ref string) (store.Bot, error) {
	if ref != "" {
		bot, err := r.FindUsable(ctx, person, ref)
		if errors.Is(err, store.ErrNotFound) {
			return bot, fmt.Errorf("%w: there is no bot %q", learn.ErrNoModel, ref)
		}
		return bot, err
	}
	list, err := db.Bots.Usable(ctx, person)
	if err != nil {
		return store.Bot{}, err
	}
	for _, bot := range list {
		if bot.Kind == "openai" {
			return bot, nil
		}
	}
	return store.Bot{}, learn.ErrNoModel
}

// indexEvery is how often new points are embedded.
const indexEvery = time.Minute

// index computes the embeddings of new points, on one instance at a time, until ctx ends.
func index(ctx context.Context, s *learn.Service, db *store.DB, instance string, log *slog.Logger) error {
	if s.Embedder == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(indexEvery)
	defer tick.Stop()
	for {
		now := time.Now()
		mine, err := db.Leases.Take(ctx, "learn-index", instance, now, now.Add(5*indexEvery))
		if err == nil && mine {
			err = s.Index(ctx)
		}
		if err != nil && ctx.Err() == nil {
			log.Error("knowledge points could not be given vectors", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

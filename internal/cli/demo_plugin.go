package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/eyeclaw/sim"
)

// pluginScale makes the plugin reconnect after half a second instead of two.
const pluginScale = 0.25

// demoPlugin simulates an EyeClaw plugin that loses its connection in the middle of an answer.
type demoPlugin struct {
	*sim.Plugin
	verse  []string      // pieces of its answer
	joined chan struct{} // receives whenever the server has confirmed a connection

	mu   sync.Mutex
	away time.Duration // how long it was disconnected
}

const (
	msgLobster = i18n.Message("Lobster")
	msgPoem    = i18n.Message("Recite a poem")
	msgDropped = i18n.Message("the plugin loses its connection")
	msgBack    = i18n.Message("disconnected for %s; no text was lost")
)

var verses = map[i18n.Lang][]string{
	i18n.Chinese: {"床前", "明月光，", "疑是", "地上霜。\n", "举头", "望明月，", "低头", "思故乡。"},
	i18n.English: {"Tyger ", "Tyger, ", "burning ", "bright,\n", "In the ", "forests ", "of the ", "night;"},
}

// After how many pieces the plugin's connection breaks, and how many pieces are lost.
const (
	piecesBefore = 3
	piecesLost   = 2
)

// playPlugin has glasses ask a plugin that loses its connection.
func playPlugin(ctx context.Context, st *demoRun) error {
	bot, err := st.bot(ctx, msgLobster, "eyeclaw", nil)
	if err != nil {
		return err
	}
	verse := verses[st.sh.lang]
	if verse == nil {
		verse = verses[i18n.English]
	}
	p := &demoPlugin{verse: verse, joined: make(chan struct{}, 8)}
	p.Plugin = sim.New(sim.Options{
		Server: st.url, Token: bot.SDKToken, BotID: strconv.FormatInt(bot.Number, 10), Scale: pluginScale,
		Upstream: func(ctx context.Context, _ sim.Chat, piece func(string)) error {
			return p.answerInPieces(ctx, st, piece)
		},
		Watch: func(n sim.Notice) {
			if n.Kind == sim.Subscribed {
				p.joined <- struct{}{}
			}
		},
	})
	st.runInBackground(context.WithoutCancel(ctx), p.Run)
	if err := p.awaitJoin(ctx); err != nil {
		return err
	}
	if err := st.awaitBot(ctx, bot.Number); err != nil {
		return err
	}
	heard, err := st.glasses(owner, strconv.FormatInt(bot.Number, 10)).say(ctx, msgPoem.In(st.sh.lang))
	if err != nil {
		return err
	}
	p.mu.Lock()
	st.note = msgBack.In(st.sh.lang, took(p.away))
	p.mu.Unlock()
	return heard.exactly(strings.Join(p.verse, ""), piecesBefore+1)
}

// awaitBot waits until a bot is registered, which is shortly after the server has accepted the
// plugin.
func (st *demoRun) awaitBot(ctx context.Context, bot int64) error {
	return await(ctx, "the plugin was not plugged in", func() (bool, error) {
		now, err := api.Bot.Call(ctx, st.at, control.BotRef{Bot: strconv.FormatInt(bot, 10)})
		return !now.Seen.IsZero(), err
	})
}

// awaitJoin waits until the server has confirmed the plugin.
func (p *demoPlugin) awaitJoin(ctx context.Context) error {
	select {
	case <-p.joined:
		return nil
	case <-ctx.Done():
		return errors.New("the plugin was not let in")
	}
}

// answerInPieces streams the poem. In the middle the connection breaks, and some pieces are lost.
func (p *demoPlugin) answerInPieces(ctx context.Context, st *demoRun, piece func(string)) error {
	var dropped time.Time
	for i, words := range p.verse {
		switch i {
		case piecesBefore:
			st.line("×", msgDropped.In(st.sh.lang))
			dropped = time.Now()
			p.Drop()
		case piecesBefore + piecesLost:
			if err := p.awaitJoin(ctx); err != nil {
				return err
			}
			p.mu.Lock()
			p.away = time.Since(dropped)
			p.mu.Unlock()
		}
		piece(words)
		if err := netx.Wait(ctx, 3*demoPiecePause); err != nil {
			return err
		}
	}
	return nil
}

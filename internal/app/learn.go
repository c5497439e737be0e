package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/account"
	"patchbay/internal/api"
	"patchbay/internal/board"
	"patchbay/internal/config"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/embed"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// LearnOptions are the options of Learn as they are configured, without a model.
func LearnOptions(b *Base, log *slog.Logger) (learn.Options, error) {
	o := learn.Options{Store: b.Store, Logger: log, Zone: localZone()}
	c := b.Config.Learn
	if zone, err := time.LoadLocation(c.TimeZone); err == nil && c.TimeZone != "" {
		o.Zone = zone
	}
	if c.EmbeddingsURL != "" {
		client, err := embed.New(embed.Options{URL: c.EmbeddingsURL, Key: c.EmbeddingsKey, Model: c.EmbeddingsModel, Dims: c.EmbeddingsDims})
		if err != nil {
			return o, fmt.Errorf("learn.embeddings: %w", err)
		}
		o.Embedder = client
	}
	return o, nil
}

// localZone is where the server is, with the zone's name if that can be found out,
// since people and the review log want to know it.
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

// dueOf tells how many reviews Learn has for a person today.
func dueOf(points *learn.Service) func(context.Context, string) (int, error) {
	return func(ctx context.Context, person string) (int, error) {
		q, err := points.Queue(ctx, person, learn.QueueFilter{Limit: 1})
		if err != nil {
			return 0, err
		}
		return q.Left.Total(), nil
	}
}

// learnDoor is the door of turns in which Learn has a bot judge. It may call no tools then.
const learnDoor = "learn"

// modelOn lets Learn ask a person's bots.
func modelOn(hub *board.Board) learn.Model {
	return func(ctx context.Context, person string, p learn.Prompt) (string, error) {
		bot, err := modelOf(ctx, hub.Registry, hub.Store, person, p.Bot)
		if err != nil {
			return "", err
		}
		turn := &talk.Turn{
			Bot: bot.Number, Door: learnDoor, Person: "learn:" + person, Lang: talk.Chinese, Depth: 1,
			// Each question stands alone.
			Conversation: uuid.NewString(), Parts: []talk.Part{{Text: p.Text}},
		}
		if p.Image != nil {
			turn.Parts = append(turn.Parts, talk.Part{Image: p.Image})
		}
		var answer strings.Builder
		err = hub.Answer(ctx, turn, func(e talk.Event) error {
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

// maxJudgement is the longest answer of a model that Learn reads.
const maxJudgement = 64 << 10

var errLongAnswer = errors.New("the model's answer is too long")

// modelOf finds the bot that judges for a person: the one that is named, or the
// first that is a model.
func modelOf(ctx context.Context, r *board.Registry, db *store.DB, person, ref string) (store.Bot, error) {
	if ref != "" {
		bot, err := r.Find(ctx, person, ref)
		if errors.Is(err, store.ErrNotFound) {
			return bot, fmt.Errorf("%w: there is no bot %q", learn.ErrNoModel, ref)
		}
		return bot, err
	}
	list, err := db.Bots.ByOwner(ctx, person)
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

// learnFilePaths are where files with knowledge points, and the calendar, are.
var learnFilePaths = []string{"/api/v1/learn/import", "/api/v1/learn/export", "/api/v1/learn/calendar.ics"}

// learnFiles takes and gives files with knowledge points: POST
// /api/v1/learn/import and GET /api/v1/learn/export.
type learnFiles struct {
	board    *board.Board
	service  *learn.Service
	accounts *account.Service
	guard    *account.Guard
	log      *slog.Logger
	address  func(*http.Request) netip.Addr
	most     int64 // bytes of a file
}

func newLearnFiles(hub *board.Board, s *learn.Service, b *Base, guard *account.Guard, log *slog.Logger, address func(*http.Request) netip.Addr, c *config.Config) http.Handler {
	f := &learnFiles{board: hub, service: s, accounts: b.Accounts, guard: guard, log: log, address: address, most: int64(c.Learn.ImportSize)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/learn/import", f.take)
	mux.HandleFunc("GET /api/v1/learn/export", f.give)
	mux.HandleFunc("GET /api/v1/learn/calendar.ics", f.calendar)
	return mux
}

// learnOperations describes what learnFiles does.
func learnOperations() []api.Operation {
	type exportQuery struct {
		Format string `query:"format"` // json, csv, md, apkg
		Deck   string `query:"deck"`
	}
	type importQuery struct {
		Name    string `query:"name"`
		Format  string `query:"format"`
		Deck    string `query:"deck"`
		DryRun  bool   `query:"dry_run"`
		SkipBad bool   `query:"skip_bad"`
	}
	return []api.Operation{
		{Method: http.MethodPost, Path: "/api/v1/learn/import", Summary: "Import knowledge points from a file, which is the body", In: reflect.TypeFor[importQuery](), Out: reflect.TypeFor[learn.Imported](), Takes: "application/octet-stream", Scope: account.ScopeLearn},
		{Method: http.MethodGet, Path: "/api/v1/learn/export", Summary: "Write knowledge points to a file", In: reflect.TypeFor[exportQuery](), Kind: "application/octet-stream", Scope: account.ScopeLearn},
		{Method: http.MethodGet, Path: "/api/v1/learn/calendar.ics", Summary: "Tell a calendar how much is due on which day", Kind: "text/calendar", Scope: account.ScopeLearn},
	}
}

// doorFiles is the name of these addresses in logs and in the audit trail.
const doorFiles = "learn-files"

// person finds out whose points are meant, and whether the key may do with them
// what the named tool does.
func (f *learnFiles) person(w http.ResponseWriter, r *http.Request, name string) (account.Principal, bool) {
	kind, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		secret = ""
	}
	p, err := f.accounts.Authenticate(r.Context(), strings.TrimSpace(secret), account.ScopeLearn, account.ScopeOperator, account.ScopeAdmin)
	switch {
	case err == nil && p.Key.Bot != 0 && !slices.Contains(p.Key.Scopes, account.ScopeLearn):
		tellWrong(w, r, http.StatusForbidden, sayKeyOfBot.Wrong())
	case err == nil && !f.allows(p, name):
		f.log.WarnContext(r.Context(), "a key's rules refused a file", "door", doorFiles, "key", p.Key.ID, "tool", name)
		tellWrong(w, r, http.StatusForbidden, sayKeyRules.Wrong(name))
	case err == nil:
		return p, true
	case account.Refused(err):
		f.log.WarnContext(r.Context(), "a key was refused", "door", doorFiles, "cause", err, "address", f.address(r))
		if f.guard.Refuse(f.address(r)) {
			w.Header().Set("Retry-After", "60")
			tellWrong(w, r, http.StatusTooManyRequests, sayManyRefused.Wrong())
			return account.Principal{}, false
		}
		w.Header().Add("WWW-Authenticate", `Bearer realm="patchbay", scope="learn"`)
		w.Header().Add("WWW-Authenticate", `Basic realm="patchbay"`)
		tellWrong(w, r, http.StatusUnauthorized, sayLearnKey.Wrong())
	default:
		f.log.ErrorContext(r.Context(), "a key could not be checked", "error", err)
		tellWrong(w, r, http.StatusServiceUnavailable, sayKeyUnchecked.Wrong())
	}
	return account.Principal{}, false
}

// allows says whether a key may use a tool.
func (f *learnFiles) allows(p account.Principal, name string) bool {
	v, err := f.board.View(p.Person.ID, p.Key.Rules)
	return err == nil && slices.ContainsFunc(v.Tools, func(o *board.Offered) bool { return o.Name == name })
}

// audit writes down what was done with a file.
func (f *learnFiles) audit(r *http.Request, p account.Principal, name string, began time.Time, bytes int64, err error) {
	row := store.Call{
		ID: uuid.Must(uuid.NewV7()).String(), At: began, Person: p.Person.ID, Address: f.address(r).String(), Key: p.Key.ID, Door: doorFiles, Program: cut(r.UserAgent(), 100),
		Provider: "learn", Tool: name, Instance: f.board.Bus.Instance, Took: time.Since(began), Bytes: bytes, Outcome: "done",
	}
	if err != nil {
		row.Outcome, row.Code, row.Cause = "failed", string(tool.Failed), cut(err.Error(), 500)
	}
	if err := f.service.Store.Calls.Add(context.WithoutCancel(r.Context()), []store.Call{row}); err != nil {
		f.log.ErrorContext(r.Context(), "a file is missing in the audit trail", "error", err)
	}
}

// cut shortens what comes from outside to what a row should hold.
func cut(s string, most int) string {
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// The tools that do for one point what a file does for many.
const (
	toolOfImport = "create_knowledge_points"
	toolOfExport = "list_knowledge_points"
	toolOfFeed   = "learning_stats"
)

// What is wrong with keys, files, or us.
var (
	sayKeyOfBot     = talk.Say{Zh: "这个密钥只用于一个机器人，不能用于知识点", En: "this key is for one bot alone, and not for knowledge points"}
	sayKeyRules     = talk.Say{Zh: "这个密钥的规则不允许 %s", En: "the rules of this key do not allow %s"}
	sayManyRefused  = talk.Say{Zh: "这个地址被拒绝的密钥太多；请等一分钟", En: "too many refused keys from this address; wait a minute"}
	sayLearnKey     = talk.Say{Zh: "需要权限为 learn、operator 或 admin 的密钥，写成 Authorization: Bearer …", En: "a key with scope learn, operator or admin is needed, as Authorization: Bearer …"}
	sayKeyUnchecked = talk.Say{Zh: "无法检查密钥；请稍后再试", En: "the key could not be checked; try again later"}
	sayFileLarge    = talk.Say{Zh: "文件超过 %d MiB（设置 learn.import_size）", En: "the file is larger than %d MiB (setting learn.import_size)"}
	sayImportsBusy  = talk.Say{Zh: "正在导入别的文件；请稍后再试", En: "other files are being imported; try again in a moment"}
	sayFileBroken   = talk.Say{Zh: "文件没有传完", En: "the file broke off"}
	sayFileFormat   = talk.Say{Zh: "格式是 json、csv、md 或 apkg", En: "the format is json, csv, md or apkg"}
	sayOurFault     = talk.Say{Zh: "出了点问题；日志里有说明", En: "something went wrong; the log says what"}
)

// langOf is the language that a program asked to be answered in.
func langOf(r *http.Request) talk.Lang {
	return talk.ParseLang(r.Header.Get("Accept-Language"), talk.English)
}

// tellWrong answers with what is wrong, in the language that was asked for.
func tellWrong(w http.ResponseWriter, r *http.Request, status int, err error) {
	writeJSON(w, status, map[string]string{"error": talk.Told(err, langOf(r))})
}

// transferTime is how long a file may take in either direction.
const transferTime = 30 * time.Minute

// take imports the request's body.
func (f *learnFiles) take(w http.ResponseWriter, r *http.Request) {
	p, ok := f.person(w, r, toolOfImport)
	if !ok {
		return
	}
	release, ok := f.service.ReserveImport()
	if !ok {
		w.Header().Set("Retry-After", "10")
		tellWrong(w, r, http.StatusServiceUnavailable, sayImportsBusy.Wrong())
		return
	}
	defer release()
	began := time.Now()
	limits := http.NewResponseController(w)
	limits.SetWriteDeadline(time.Now().Add(transferTime)) //nolint:errcheck // then the server's own holds
	file, err := os.CreateTemp("", "patchbay-import-*")
	if err != nil {
		f.failed(w, r, err)
		return
	}
	defer os.Remove(file.Name())
	defer file.Close()
	size, err := file.ReadFrom(http.MaxBytesReader(w, r.Body, f.most))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		tellWrong(w, r, http.StatusRequestEntityTooLarge, sayFileLarge.Wrong(f.most>>20))
		return
	} else if err != nil {
		tellWrong(w, r, http.StatusBadRequest, sayFileBroken.Wrong())
		return
	}
	q := r.URL.Query()
	done, err := f.service.Import(r.Context(), p.Person.ID, learn.ImportFile{
		Name: q.Get("name"), Format: q.Get("format"), Deck: q.Get("deck"), Reader: file, Size: size,
		DryRun: q.Get("dry_run") == "true", SkipBad: q.Get("skip_bad") == "true",
	})
	if q.Get("dry_run") != "true" {
		f.audit(r, p, "import", began, size, err)
	}
	if err != nil {
		f.failed(w, r, err)
		return
	}
	status := http.StatusOK
	if len(done.Bad) > 0 && !done.Done && q.Get("dry_run") != "true" {
		status = http.StatusUnprocessableEntity
	}
	done.Speak(langOf(r))
	writeJSON(w, status, done)
}

// failed says what is wrong with a file, or that we failed.
func (f *learnFiles) failed(w http.ResponseWriter, r *http.Request, err error) {
	var tooMany *transfer.TooManyError
	if bad, ok := errors.AsType[*learn.Invalid](err); ok {
		tellWrong(w, r, http.StatusBadRequest, bad)
		return
	}
	if errors.Is(err, transfer.ErrUnreadable) || errors.Is(err, transfer.ErrFormat) || errors.As(err, &tooMany) {
		tellWrong(w, r, http.StatusBadRequest, err)
		return
	}
	f.log.ErrorContext(r.Context(), "a file of knowledge points failed", "error", err)
	tellWrong(w, r, http.StatusInternalServerError, sayOurFault.Wrong())
}

// types are the content types of files, and the ends of their names.
var types = map[string][2]string{
	transfer.JSON: {"application/json", "json"}, transfer.CSV: {"text/csv; charset=utf-8", "csv"},
	transfer.Markdown: {"text/markdown; charset=utf-8", "md"}, transfer.Anki: {"application/apkg", "apkg"},
}

// give exports a person's points.
func (f *learnFiles) give(w http.ResponseWriter, r *http.Request) {
	p, ok := f.person(w, r, toolOfExport)
	if !ok {
		return
	}
	began := time.Now()
	q := r.URL.Query()
	format := q.Get("format")
	if format == "" {
		format = transfer.JSON
	}
	kind, known := types[format]
	if !known {
		tellWrong(w, r, http.StatusBadRequest, sayFileFormat.Wrong())
		return
	}
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(transferTime)) //nolint:errcheck // then the server's own holds
	// The file is written first: an error in its middle could not be told any more.
	file, err := os.CreateTemp("", "patchbay-export-*")
	if err != nil {
		f.failed(w, r, err)
		return
	}
	defer os.Remove(file.Name())
	defer file.Close()
	_, err = f.service.Export(r.Context(), p.Person.ID, learn.ExportOptions{Format: format, Deck: q.Get("deck")}, file)
	size, _ := file.Seek(0, io.SeekCurrent)
	f.audit(r, p, "export", began, size, err)
	if err != nil {
		f.failed(w, r, err)
		return
	}
	w.Header().Set("Content-Type", kind[0])
	w.Header().Set("Content-Disposition", `attachment; filename="patchbay-learn.`+kind[1]+`"`)
	http.ServeContent(w, r, "", time.Time{}, file)
}

// indexEvery is how often new points get their vectors.
const indexEvery = time.Minute

// index makes vectors of new points, in one instance at a time, until ctx ends.
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

package ankiconnect

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"patchbay/internal/control"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/note"
)

func modelActions() map[string]*action {
	return map[string]*action{
		"modelNames": doing(toolDecks, func(x *exchange, ctx context.Context, _ none) (any, error) {
			types, err := x.points.AnkiTypes(ctx, x.person)
			names := []string{}
			for _, t := range types {
				names = append(names, t.Name)
			}
			return names, err
		}),
		"modelNamesAndIds": doing(toolDecks, func(x *exchange, ctx context.Context, _ none) (any, error) {
			types, err := x.points.AnkiTypes(ctx, x.person)
			out := map[string]int64{}
			for _, t := range types {
				out[t.Name] = t.ID
			}
			return out, err
		}),
		"modelNameFromId": doing(toolDecks, func(x *exchange, ctx context.Context, in struct {
			ID int64 `json:"modelId"`
		}) (any, error) {
			t, err := x.model(ctx, func(t *learn.StoredType) bool { return t.ID == in.ID }, fmt.Sprint(in.ID))
			if err != nil {
				return nil, err
			}
			return t.Name, nil
		}),
		"modelFieldNames":        ofModel(func(t *note.Type) any { return fieldNames(t) }),
		"modelFieldDescriptions": ofModel(func(t *note.Type) any { return make([]string, len(t.Fields)) }),
		"modelFieldFonts": ofModel(func(t *note.Type) any {
			out := map[string]any{}
			for _, f := range t.Fields {
				out[f.Name] = map[string]any{"font": f.Font, "size": f.Size}
			}
			return out
		}),
		"modelFieldsOnTemplates": ofModel(fieldsOnTemplates),
		"modelTemplates": ofModel(func(t *note.Type) any {
			out := map[string]any{}
			for _, m := range t.Templates {
				out[m.Name] = map[string]string{"Front": m.Front, "Back": m.Back}
			}
			return out
		}),
		"modelStyling":         ofModel(func(t *note.Type) any { return map[string]string{"css": t.CSS} }),
		"findModelsById":       doing(toolDecks, (*exchange).modelsByID),
		"findModelsByName":     doing(toolDecks, (*exchange).modelsByName),
		"createModel":          doing(toolAdd, (*exchange).createModel),
		"updateModelTemplates": doing(toolEdit, (*exchange).updateModelTemplates),
		"updateModelStyling":   doing(toolEdit, (*exchange).updateModelStyling),
	}
}

// ofModel returns an action that tells something about a note type.
func ofModel(about func(*note.Type) any) *action {
	return doing(toolDecks, func(x *exchange, ctx context.Context, in struct {
		Name string `json:"modelName"`
	}) (any, error) {
		t, err := x.modelNamed(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		return about(t.Type), nil
	})
}

func fieldNames(t *note.Type) []string {
	out := []string{}
	for _, f := range t.Fields {
		out = append(out, f.Name)
	}
	return out
}

// model returns the first note type that fits.
func (x *exchange) model(ctx context.Context, fits func(*learn.StoredType) bool,
	what string) (*learn.StoredType, error) {
	types, err := x.points.AnkiTypes(ctx, x.person)
	if err != nil {
		return nil, err
	}
	for i := range types {
		if fits(&types[i]) {
			return &types[i], nil
		}
	}
	return nil, notThere(what)
}

func (x *exchange) modelNamed(ctx context.Context, name string) (*learn.StoredType, error) {
	return x.model(ctx, func(t *learn.StoredType) bool { return t.Name == name }, name)
}

// insertion matches what a template inserts, but sections.
var insertion = regexp.MustCompile(`{{([^#/^}]+?)}}`)

// fieldsOnTemplates lists the fields that each side of the templates shows; those of the question
// are not repeated for the answer.
func fieldsOnTemplates(t *note.Type) any {
	out := map[string]any{}
	for _, m := range t.Templates {
		sides := [2][]string{{}, {}}
		for i, side := range []string{m.Front, m.Back} {
			for _, found := range insertion.FindAllStringSubmatch(side, -1) {
				name := strings.TrimSpace(found[1][strings.LastIndex(found[1], ":")+1:])
				if name != "FrontSide" && (i == 0 || !slices.Contains(sides[0], name)) {
					sides[i] = append(sides[i], name)
				}
			}
		}
		out[m.Name] = sides
	}
	return out
}

func (x *exchange) modelsByID(ctx context.Context, in struct {
	IDs []int64 `json:"modelIds"`
}) (any, error) {
	return models(x, ctx, in.IDs, func(t *learn.StoredType) int64 { return t.ID })
}

func (x *exchange) modelsByName(ctx context.Context, in struct {
	Names []string `json:"modelNames"`
}) (any, error) {
	return models(x, ctx, in.Names, func(t *learn.StoredType) string { return t.Name })
}

// models describes note types, by what of tells of them.
func models[T comparable](x *exchange, ctx context.Context, wanted []T, of func(*learn.StoredType) T) (any, error) {
	if len(wanted) > maxInfos {
		return nil, refusal("there are %d models at most", maxInfos)
	}
	types, err := x.points.AnkiTypes(ctx, x.person)
	if err != nil {
		return nil, err
	}
	out, size := []json.RawMessage{}, 0
	for _, w := range wanted {
		at := slices.IndexFunc(types, func(t learn.StoredType) bool { return of(&t) == w })
		if at < 0 {
			return nil, notThere(w)
		}
		model, err := types[at].JSON()
		size += len(model)
		if err := cmp.Or(err, x.room(size)); err != nil {
			return nil, err
		}
		out = append(out, model)
	}
	return out, nil
}

func notThere(model any) error { return refusal("model was not found: %v", model) }

// newModel is a note type to add.
type newModel struct {
	Name      string   `json:"modelName"`
	Fields    []string `json:"inOrderFields"`
	CSS       *string  `json:"css"`
	Cloze     bool     `json:"isCloze"`
	Templates []struct {
		Name  string `json:"Name"`
		Front string `json:"Front"`
		Back  string `json:"Back"`
	} `json:"cardTemplates"`
}

func (x *exchange) createModel(ctx context.Context, in newModel) (any, error) {
	switch {
	case len(in.Fields) == 0:
		return nil, clientError("Must provide at least one field for inOrderFields")
	case len(in.Templates) == 0:
		return nil, clientError("Must provide at least one card for cardTemplates")
	case strings.TrimSpace(in.Name) == "":
		return nil, clientError("Must provide a modelName")
	}
	if _, err := x.modelNamed(ctx, in.Name); err == nil {
		return nil, clientError("Model name already exists")
	}
	var templates []note.Template
	for i, m := range in.Templates {
		if m.Name == "" {
			m.Name = fmt.Sprint("Card ", i+1)
		}
		templates = append(templates, note.Template{Name: m.Name, Front: m.Front, Back: m.Back})
	}
	t := learn.NewNoteType(x.points.Now(), in.Name, in.Cloze, in.Fields, in.CSS, templates...)
	var made learn.StoredType
	err := x.change("create_note_type", map[string]any{"name": in.Name, "fields": in.Fields}, func() (err error) {
		made, err = x.points.SaveNewType(ctx, x.person, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	model, err := made.JSON()
	return model, err
}

// change does what no use case of package control does, and records it in the audit trail.
func (x *exchange) change(name string, args any, do func() error) error {
	return x.server.Control.RecordLearnChange(x.caller, name, args, do)
}

// changeModel changes a note type with set, and writes it with save. The one of points without a
// note is no row that could be changed.
func (x *exchange) changeModel(ctx context.Context, name string, set func(*note.Type),
	save func(context.Context, string, learn.StoredType) error) error {
	t, err := x.modelNamed(ctx, name)
	if err != nil {
		return err
	}
	if t.IsPlain() {
		return refusal("the model %s cannot be changed", name)
	}
	set(t.Type)
	ctx, cancel := control.Detached(ctx)
	defer cancel()
	return x.change("update_note_type", map[string]string{"name": name}, func() error {
		return save(ctx, x.person, *t)
	})
}

func (x *exchange) updateModelTemplates(ctx context.Context, in struct {
	Model struct {
		Name      string                       `json:"name"`
		Templates map[string]map[string]string `json:"templates"`
	} `json:"model"`
}) (any, error) {
	return nil, x.changeModel(ctx, in.Model.Name, func(t *note.Type) {
		for i := range t.Templates {
			m := &t.Templates[i]
			if front := in.Model.Templates[m.Name]["Front"]; front != "" {
				m.Front = front
			}
			if back := in.Model.Templates[m.Name]["Back"]; back != "" {
				m.Back = back
			}
		}
	}, x.points.SaveType)
}

func (x *exchange) updateModelStyling(ctx context.Context, in struct {
	Model struct {
		Name string `json:"name"`
		CSS  string `json:"css"`
	} `json:"model"`
}) (any, error) {
	return nil, x.changeModel(ctx, in.Model.Name, func(t *note.Type) { t.CSS = in.Model.CSS }, x.points.SaveStyle)
}

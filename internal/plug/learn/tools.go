package learn

import (
	"encoding/json"
	"strings"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/tool"
)

// ProviderRef returns the provider under which Learn registers with the hub. Everybody may use it,
// each with their own points, and its tool names have no prefix.
func ProviderRef() hub.ProviderRef {
	return hub.ProviderRef{ID: "learn", Kind: "learn", Title: "Learn", Timeout: 10 * time.Minute}
}

// Names of the tools. The first eight are those of the original service, so that its programs work
// here unchanged.
const (
	toolListReviews = "list_reviews"
	toolListPoints  = "list_knowledge_points"
	toolGet         = "get_knowledge_point"
	toolCreate      = "create_knowledge_point"
	toolUpdate      = "update_knowledge_point"
	toolDelete      = "delete_knowledge_point"
	toolRecall      = "submit_recall"
	toolMark        = "mark_as_reviewed"

	toolCreateMany = "create_knowledge_points"
	toolRestore    = "restore_knowledge_point"
	toolTrash      = "list_deleted_knowledge_points"
	toolSearch     = "search_knowledge_points"
	toolNext       = "next_review"
	toolReveal     = "reveal_answer"
	toolSubmit     = "submit_review"
	toolUndo       = "undo_review"
	toolReschedule = "reschedule_knowledge_points"
	toolDecks      = "list_decks"
	toolSaveDeck   = "save_deck"
	toolDropDeck   = "delete_deck"
	toolTags       = "list_tags"
	toolStats      = "learning_stats"
	toolHistory    = "review_history"
	toolSettings   = "get_learning_settings"
	toolConfigure  = "update_learning_settings"
	toolJudge      = "analyze_recall"
	toolAsk        = "ask_knowledge"
	toolEdit       = "edit_knowledge_points"
	toolUndoEdit   = "undo_edit"
	toolFit        = "fit_memory"
	toolSimulate   = "simulate_retention"
)

// Parts of schemas.
const (
	schemaID       = `{"type":"string","minLength":1,"maxLength":100,"description":"知识点的ID"}`
	schemaQuery    = `{"type":"string","maxLength":1000,"description":"Words, and conditions such as tag:x, deck:\"My deck\", is:new (also learning, review, due, suspended, buried, draft, leech), flag:1 (0 to 7), forgotten:7d, reviewed:7d, added:2w, due:3d, lapses:4; - before a condition negates it; all must hold"}`
	schemaFlag     = `{"type":"integer","minimum":0,"maximum":7,"description":"Flag from 1 to 7; 0 removes it"}`
	schemaBury     = `{"type":"boolean","description":"Hide it until tomorrow; false shows it again"}`
	schemaCram     = `{"type":"boolean","description":"Go through all points of the query, due or not. Nothing is recorded, unless submit_review says early"}`
	schemaDeck     = `{"type":"string","maxLength":200,"description":"Name of a deck; \"default\" is the default deck"}`
	schemaTag      = `{"type":"string","maxLength":100,"description":"Only points with this tag"}`
	schemaTags     = `{"type":"array","maxItems":20,"items":{"type":"string","maxLength":100},"description":"Tags, without #"}`
	schemaLimit    = `{"type":"integer","minimum":1,"maximum":500,"description":"Maximum number of rows per page (default 50)"}`
	schemaPage     = `{"type":"string","maxLength":2000,"description":"next_cursor of the previous page"}`
	schemaGrade    = `{"enum":["again","hard","good","easy"],"description":"Grade of the first recall attempt: again = forgotten or wrong, hard = with effort or gaps, good = correct, easy = immediate. Judge the meaning, not the wording."}`
	schemaText     = `{"type":"string","maxLength":65536,"description":"主动回忆的内容"}`
	schemaReviewID = `{"type":"string","minLength":1,"maxLength":100,"description":"Idempotency key for this review, such as a UUID: a repeated call with the same key counts once, and with another grade it corrects the review"}`
	// schemaDrafts sets neither limits nor types on single drafts, which would reject the whole
	// call because of one: [Service.Create] reports the error of each draft.
	schemaDrafts = `{"properties":{"question":{"description":"Question or prompt (a text; required; at most 64 KiB)"},` +
		`"answer":{"description":"Answer or explanation (a text; required; at most 64 KiB)"},` +
		`"deck":{"description":"Name of a deck; \"default\" is the default deck"},` +
		`"tags":{"description":"A list of at most 20 tags, without #"}}}`
	// schemaIDs has no types for the same reason: an unknown ID is reported as such.
	schemaIDs = `{"type":"array","minItems":1,"maxItems":50,"items":{"description":"知识点的ID"},"description":"知识点的ID"}`
)

func objectSchema(required string, members ...string) json.RawMessage {
	text := `{"type":"object","properties":{`
	for i := 0; i+1 < len(members); i += 2 {
		if i > 0 {
			text += ","
		}
		text += `"` + members[i] + `":` + members[i+1]
	}
	text += `}`
	if required != "" {
		text += `,"required":` + required
	}
	return json.RawMessage(text + `}`)
}

func textSchema(description string) string {
	text, _ := json.Marshal(description)
	return `{"type":"string","maxLength":65536,"description":` + string(text) + `}`
}

// Tools returns Learn's tools.
func Tools() []tool.Tool {
	question, answer := textSchema("问题/提示"), textSchema("答案/详细说明")
	inPlan := `{"type":"boolean","description":"Whether it is in the review plan"}`
	list := []tool.Tool{
		{Name: toolListReviews, Title: "Due reviews", Description: "查询今日需要复习的列表",
			Input: objectSchema("", "limit", schemaLimit, "cursor", schemaPage, "deck", schemaDeck, "tag", schemaTag),
			Hints: tool.ReadOnlyHints()},
		{Name: toolListPoints, Title: "Knowledge points", Description: "查询所有知识点列表",
			Input: objectSchema("", "limit", schemaLimit, "cursor", schemaPage, "deck", schemaDeck, "tag", schemaTag,
				"query", schemaQuery, "due_only",
				`{"type":"boolean","description":"Only points that are due now"}`,
				"drafts", `{"type":"boolean","description":"Only drafts that are not confirmed yet"}`),
			Hints: tool.ReadOnlyHints()},
		{Name: toolGet, Title: "Get a knowledge point", Description: "根据ID获取单个知识点的详细信息",
			Input: objectSchema(`["id"]`, "id", schemaID), Hints: tool.ReadOnlyHints()},
		{Name: toolCreate, Title: "Add a knowledge point", Description: "创建新的知识点",
			Input: objectSchema(`["question","answer"]`, "question", question, "answer", answer, "deck", schemaDeck,
				"tags", schemaTags, "is_in_review_plan", inPlan,
				"media", schemaMedia, "draft",
				`{"type":"boolean","description":"Save it as a draft until the person confirms it (update_knowledge_point with draft=false)"}`), Hints: writeHints(false, false)},
		{Name: toolUpdate, Title: "Change a knowledge point", Description: "更新现有的知识点",
			Input: objectSchema(`["id"]`, "id", schemaID, "question", question, "answer", answer, "deck", schemaDeck,
				"tags", schemaTags, "is_in_review_plan", inPlan,
				"suspended", `{"type":"boolean","description":"Suspend it without removing it from the plan"}`,
				"draft", `{"type":"boolean","description":"false confirms a draft"}`, "fields", schemaFields,
				"media", schemaMedia, "flag", schemaFlag, "bury", schemaBury), Hints: writeHints(false, true)},
		{Name: toolDelete, Title: "Delete a knowledge point", Description: "删除知识点",
			Input: objectSchema(`["id"]`, "id", schemaID), Hints: writeHints(true, false)},
		{Name: toolRecall, Title: "Submit a recall", Description: "提交主动回忆（完成复习）",
			Input: objectSchema(`["schedule_id","recall_text"]`, "schedule_id",
				`{"type":"string","minLength":1,"maxLength":100,"description":"复习计划的ID"}`, "recall_text", schemaText,
				"grade", schemaGrade, "review_id", schemaReviewID), Hints: writeHints(false, true)},
		{Name: toolMark, Title: "Mark as reviewed", Description: "将知识点标记为已复习（更新最后一个未完成的复习计划）",
			Input: objectSchema(`["knowledge_point_id"]`, "knowledge_point_id", schemaID, "recall_text", schemaText,
				"grade", schemaGrade, "review_id", schemaReviewID), Hints: writeHints(false, true)},
	}
	list = append(list, moreTools(question, answer)...)
	return append(list, fitTools()...)
}

func moreTools(question, answer string) []tool.Tool {
	settings := `{"type":"object","description":"Settings to change; null restores the default. schedule (fsrs or classic: days 1, 7, 16, 35), retention (0.80–0.97), max_interval (days), steps and relearn (lists of minutes; [] for none), new_per_day, reviews_per_day, leech, leech_suspend, bury, balance, easy_days (such as {\"sun\":0}), weights"}`
	return []tool.Tool{
		{Name: toolCreateMany, Title: "Add several knowledge points",
			Description: "Add up to 50 knowledge points at once. Each is one fact: a question with one clear answer. Invalid points are reported individually (errors); the others are saved.",
			Input: objectSchema(`["points"]`, "points",
				`{"type":"array","minItems":1,"maxItems":50,"items":`+schemaDrafts+`}`, "draft",
				`{"type":"boolean","description":"Save them as drafts until the person confirms them"}`),
			Hints: writeHints(false, false)},
		{Name: toolRestore, Title: "Restore a deleted point",
			Description: "Restore a deleted knowledge point from the trash. Points stay in the trash for 30 days.",
			Input:       objectSchema(`["id"]`, "id", schemaID), Hints: writeHints(false, true)},
		{Name: toolTrash, Title: "Trash",
			Description: "List deleted knowledge points that restore_knowledge_point can restore.",
			Input:       objectSchema("", "limit", schemaLimit, "cursor", schemaPage), Hints: tool.ReadOnlyHints()},
		{Name: toolSearch, Title: "Search knowledge points",
			Description: "Search knowledge points by content, best match first. Supports Chinese and English.",
			Input: objectSchema(`["query"]`, "query", schemaQuery,
				"deck", schemaDeck, "tag", schemaTag, "limit",
				`{"type":"integer","minimum":1,"maximum":40,"description":"Default 10"}`), Hints: tool.ReadOnlyHints()},
		{Name: toolNext, Title: "Next question",
			Description: "Get the next question to review, without its answer. Ask it and wait for the person's recall. Only then call reveal_answer, grade the recall, tell the person the grade and the answer, and call submit_review, which returns the next question. This call does not reserve the question.",
			Input: objectSchema("", "deck", schemaDeck, "tag", schemaTag, "query", schemaQuery, "cram", schemaCram,
				"cursor", schemaPage), Hints: tool.ReadOnlyHints()},
		{Name: toolReveal, Title: "Show the answer",
			Description: "Get the answer to a question after the person has tried to recall it. Also returns the next review date for each grade.",
			Input:       objectSchema(`["knowledge_point_id"]`, "knowledge_point_id", schemaID),
			Hints:       tool.ReadOnlyHints()},
		{Name: toolSubmit, Title: "Submit a review",
			Description: "Record the grade of a recall and get the next question. Grade the first attempt. Pass the schedule_id from next_review, so that a concurrent review on another device is detected, and your own review_id, so that a repeated call counts once.",
			Input: objectSchema(`["knowledge_point_id","grade"]`, "knowledge_point_id", schemaID, "grade", schemaGrade,
				"schedule_id", `{"type":"string","minLength":1,"maxLength":100,"description":"From next_review"}`,
				"review_id", schemaReviewID, "recall_text", schemaText,
				"score",
				`{"type":"integer","minimum":0,"maximum":100,"description":"Correctness of the recall, if you judged it"}`,
				"took_ms",
				`{"type":"integer","minimum":0,"maximum":3600000,"description":"Time that the person needed"}`,
				"early", `{"type":"boolean","description":"Review it before it is due"}`,
				"deck", schemaDeck, "tag", schemaTag, "query", schemaQuery, "cram", schemaCram,
				"cursor", schemaPage), Hints: writeHints(false, true)},
		{Name: toolUndo, Title: "Undo a review",
			Description: "Undo the last review, or the review with this review_id: the schedule of the point before the review is restored. Later changes to its text are kept.",
			Input:       objectSchema("", "review_id", `{"type":"string","minLength":1,"maxLength":100}`),
			Hints:       writeHints(false, false)},
		{Name: toolReschedule, Title: "Reschedule",
			Description: "Set the next review of up to 50 knowledge points to a date, or to a number of days from now (0 = today).",
			Input: objectSchema(`["ids"]`, "ids", schemaIDs, "date",
				`{"type":"string","pattern":"^\\d{4}-\\d{2}-\\d{2}$"}`,
				"in_days", `{"type":"integer","minimum":0,"maximum":36500}`), Hints: writeHints(false, true)},
		{Name: toolEdit, Title: "Edit many points",
			Description: "Change many knowledge points at once: those with the ids, and all that match the query. Points that cannot be changed are reported, the others are changed. undo_edit takes the last edit back for a day. Use dry_run first to see how many points match.",
			Input: objectSchema("", "ids", strings.Replace(schemaIDs, `"maxItems":50`, `"maxItems":500`, 1),
				"query", schemaQuery, "dry_run", `{"type":"boolean","description":"Only count the points that match"}`,
				"deck", schemaDeck, "add_tags", schemaTags, "remove_tags", schemaTags,
				"suspended", `{"type":"boolean","description":"Suspend them without removing them from the plan"}`,
				"flag", schemaFlag, "bury", schemaBury, "date", `{"type":"string","pattern":"^\\d{4}-\\d{2}-\\d{2}$"}`,
				"in_days", `{"type":"integer","minimum":0,"maximum":36500}`, "deleted",
				`{"type":"boolean","description":"Put them into the trash; false takes them out"}`),
			Hints: writeHints(true, true)},
		{Name: toolUndoEdit, Title: "Undo an edit of many points",
			Description: "Undo the last edit_knowledge_points. What was changed after it is kept.",
			Input:       objectSchema(""), Hints: writeHints(false, false)},
		{Name: toolDecks, Title: "Decks",
			Description: "List the decks with their numbers of new and due points, and their settings.",
			Input:       objectSchema(""), Hints: tool.ReadOnlyHints()},
		{Name: toolSaveDeck, Title: "Create or change a deck",
			Description: "Create a deck, rename it, or change its settings. Changing the schedule reschedules all its points and keeps their history.",
			Input: objectSchema(`["name"]`, "name", `{"type":"string","minLength":1,"maxLength":200}`, "new_name",
				`{"type":"string","minLength":1,"maxLength":200}`, "settings", settings),
			Hints: writeHints(false, true)},
		{Name: toolDropDeck, Title: "Delete a deck", Description: "Delete a deck. Its points move to the default deck.",
			Input: objectSchema(`["name"]`, "name", `{"type":"string","minLength":1,"maxLength":200}`),
			Hints: writeHints(true, false)},
		{Name: toolTags, Title: "Tags", Description: "List the tags with the number of points for each.",
			Input: objectSchema("", "limit", schemaLimit, "cursor", schemaPage), Hints: tool.ReadOnlyHints()},
		{Name: toolStats, Title: "Learning statistics",
			Description: "Get the reviews remaining for today, the reviews done, the streak, the retention rate, and a forecast of due reviews.",
			Input: objectSchema("", "days",
				`{"type":"integer","minimum":1,"maximum":365,"description":"Number of days of the forecast (default 14)"}`,
				"history_days",
				`{"type":"integer","minimum":0,"maximum":365,"description":"Number of days of history (default 0)"}`),
			Hints: tool.ReadOnlyHints()},
		{Name: toolHistory, Title: "History of a point",
			Description: "List the reviews of a knowledge point, oldest first.",
			Input: objectSchema(`["knowledge_point_id"]`, "knowledge_point_id", schemaID, "limit", schemaLimit,
				"cursor", schemaPage), Hints: tool.ReadOnlyHints()},
		{Name: toolSettings, Title: "Learning settings",
			Description: "Get the person's time zone, start of day, reminders, and the default settings of all decks.", Input: objectSchema(""), Hints: tool.ReadOnlyHints()},
		{Name: toolConfigure, Title: "Change learning settings",
			Description: "Change learning settings; null restores the default.",
			Input: objectSchema("", "time_zone", `{"type":["string","null"],"description":"Such as Asia/Shanghai"}`,
				"day_start", `{"type":["string","null"],"description":"Such as 04:00"}`,
				"bot",
				`{"type":["string","null"],"description":"Number or name of the bot that judges recalls; none disables judging"}`, "strictness", `{"enum":["lenient","normal","strict",null]}`,
				"defaults", settings, "remind",
				`{"type":["object","null"],"description":"at (such as 20:00), via (a list of glasses, push, webhook, calendar), webhook (an address)"}`,
				"fit_monthly", `{"type":["boolean","null"],"description":"Fit the memory model to the reviews each month, as fit_memory does"}`), Hints: writeHints(false, true)},
		{Name: toolJudge, Title: "Judge a recall",
			Description: "Compare a person's recall with the answer. Returns a score, the correct, missing and wrong parts, and a suggested grade. Changes nothing. Pass a knowledge point, or a question and an answer.",
			Input: objectSchema(`["recall_text"]`, "knowledge_point_id", schemaID, "question", question,
				"answer", answer, "recall_text", schemaText), Hints: tool.ReadOnlyHints()},
		{Name: toolAsk, Title: "Ask your knowledge base",
			Description: "Answer a question from the person's own knowledge points, with references to the points used.",
			Input:       objectSchema(`["question"]`, "question", `{"type":"string","minLength":1,"maxLength":4000}`),
			Hints:       tool.ReadOnlyHints()},
	}
}

// writeHints returns the hints of a tool that changes stored data only.
func writeHints(destructive, idempotent bool) tool.Hints {
	no := false
	return tool.Hints{ReadOnly: &no, Destructive: &destructive, Idempotent: &idempotent, OpenWorld: &no}
}

// ToolNames returns the names of the tools, for channels that show no others.
func ToolNames() []string {
	var names []string
	for _, t := range Tools() {
		names = append(names, t.Name)
	}
	return names
}

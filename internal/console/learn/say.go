package learn

import "patchbay/internal/talk"

// Texts of all pages.
var (
	sayLearn       = talk.Say{Zh: "学习", En: "Learn"}
	sayToday       = talk.Say{Zh: "今天", En: "Today"}
	sayTomorrow    = talk.Say{Zh: "明天", En: "tomorrow"}
	sayInDays      = talk.Say{Zh: "%d 天后", En: "in %d days"}
	sayDaysAgo     = talk.Say{Zh: "%d 天前", En: "%d days ago"}
	sayPoints      = talk.Say{Zh: "知识点", En: "Points"}
	sayDecks       = talk.Say{Zh: "牌组", En: "Decks"}
	sayStats       = talk.Say{Zh: "统计", En: "Statistics"}
	sayFiles       = talk.Say{Zh: "导入与导出", En: "Import and export"}
	saySettings    = talk.Say{Zh: "设置", En: "Settings"}
	sayDefaultDeck = talk.Say{Zh: "默认牌组", En: "Default deck"}
	sayDeck        = talk.Say{Zh: "牌组", En: "Deck"}
	sayAllDecks    = talk.Say{Zh: "全部牌组", En: "All decks"}
	sayTag         = talk.Say{Zh: "标签", En: "Tag"}
	sayTags        = talk.Say{Zh: "标签", En: "Tags"}
	sayName        = talk.Say{Zh: "名称", En: "Name"}
	saySave        = talk.Say{Zh: "保存", En: "Save"}
	saySaved       = talk.Say{Zh: "已保存。", En: "Saved."}
	sayCancel      = talk.Say{Zh: "取消", En: "Cancel"}
	sayYes         = talk.Say{Zh: "是", En: "Yes"}
	sayNo          = talk.Say{Zh: "否", En: "No"}
	sayReview      = talk.Say{Zh: "复习", En: "Review"}
	sayNewPoint    = talk.Say{Zh: "新知识点", En: "New point"}
	sayImport      = talk.Say{Zh: "导入", En: "Import"}

	sayNoDeck = talk.Say{Zh: "没有这个牌组。", En: "There is no such deck."}
)

// Texts of the page of today.
var (
	sayToReview   = talk.Say{Zh: "个待复习", En: "to review today"}
	sayLeftParts  = talk.Say{Zh: "到期 %d · 学习中 %d · 新 %d", En: "%d due · %d being learned · %d new"}
	sayStart      = talk.Say{Zh: "开始复习", En: "Start"}
	sayNothingDue = talk.Say{Zh: "现在没有要复习的", En: "Nothing is due now"}
	sayNextDay    = talk.Say{Zh: "下一批：%s，%d 个。", En: "Next: %s, %d to review."}
	sayHeld       = talk.Say{Zh: "另有 %d 个到期的，因为达到了每天的上限，今天不出现。",
		En: "%d more are due and held back by the limits of the day."}
	sayToLimits     = talk.Say{Zh: "更改上限", En: "Change the limits"}
	sayDoneToday    = talk.Say{Zh: "今天复习的次数", En: "reviews today"}
	sayMinutesToday = talk.Say{Zh: "今天用的分钟数", En: "minutes today"}
	sayStreak       = talk.Say{Zh: "连续学习的天数", En: "days in a row"}
	sayPointsAll    = talk.Say{Zh: "知识点总数", En: "points in all"}
	sayByDeck       = talk.Say{Zh: "按牌组", En: "By deck"}
	sayDueNew       = talk.Say{Zh: "到期 %d · 新 %d", En: "%d due · %d new"}
	sayNoPoints     = talk.Say{Zh: "还没有知识点", En: "No points yet"}
	sayNoPointsHint = talk.Say{Zh: "知识点是一个问题和它的答案。写下第一个，或者导入 Anki、CSV、Markdown 文件；快要忘记的时候，它就会再来。",
		En: "A point is a question with its answer. Write the first one, or import a file of Anki, CSV or Markdown; each comes back when it is about to be forgotten."}
)

// Texts of review sessions.
var (
	sayEnd        = talk.Say{Zh: "结束", En: "End"}
	sayProgress   = talk.Say{Zh: "进度", En: "Progress"}
	sayNumberOf   = talk.Say{Zh: "第 %d / %d 个", En: "%d of %d"}
	sayQuestion   = talk.Say{Zh: "问题", En: "Question"}
	sayAnswer     = talk.Say{Zh: "答案", En: "Answer"}
	sayRecall     = talk.Say{Zh: "你想起了什么？", En: "What do you recall?"}
	sayRecallHint = talk.Say{Zh: "可以不写。写了，就会和答案比对。",
		En: "You need not write it. If you do, it is compared with the answer."}
	sayReveal      = talk.Say{Zh: "显示答案", En: "Show the answer"}
	saySpaceKey    = talk.Say{Zh: "空格", En: "Space"}
	sayUndo        = talk.Say{Zh: "撤销", En: "Undo"}
	sayNotToday    = talk.Say{Zh: "明天再来", En: "Not today"}
	sayRest        = talk.Say{Zh: "暂停它", En: "Let it rest"}
	sayEdit        = talk.Say{Zh: "编辑", En: "Edit"}
	sayHowWell     = talk.Say{Zh: "记得怎么样？", En: "How well did you know it?"}
	sayAgain       = talk.Say{Zh: "忘了", En: "Again"}
	sayHard        = talk.Say{Zh: "困难", En: "Hard"}
	sayGood        = talk.Say{Zh: "记得", En: "Good"}
	sayEasy        = talk.Say{Zh: "简单", En: "Easy"}
	sayUngraded    = talk.Say{Zh: "未评分", En: "not graded"}
	sayWaitMinutes = talk.Say{Zh: "%d 分钟", En: "%d min"}
	sayWaitHours   = talk.Say{Zh: "%d 小时", En: "%d h"}
	sayWaitDays    = talk.Say{Zh: "%d 天", En: "%d d"}
	sayWaitMonths  = talk.Say{Zh: "%.1f 个月", En: "%.1f months"}
	sayWaitYears   = talk.Say{Zh: "%.1f 年", En: "%.1f years"}
	saySuggested   = talk.Say{Zh: "建议评分：%s", En: "Suggested: %s"}
	sayCompared    = talk.Say{Zh: "比对", En: "Your words and the answer"}
	sayYours       = talk.Say{Zh: "你写的（划去的不在答案里）", En: "Yours (struck out: not in the answer)"}
	sayTheAnswer   = talk.Say{Zh: "答案（划线的没有写到）", En: "The answer (underlined: not in yours)"}
	sayJudge       = talk.Say{Zh: "请模型评判", En: "Have it judged"}
	sayScore       = talk.Say{Zh: "%d 分", En: "%d of 100"}
	sayRight       = talk.Say{Zh: "说对了：", En: "Right:"}
	sayMissing     = talk.Say{Zh: "没说到：", En: "Missing:"}
	sayWrong       = talk.Say{Zh: "说错了：", En: "Wrong:"}
	sayWordsOnly   = talk.Say{Zh: "只比对了文字：%s", En: "Only the words were compared: %s"}

	sayPause       = talk.Say{Zh: "稍等一会儿", En: "A short break"}
	sayAllDone     = talk.Say{Zh: "今天的都复习完了", En: "All done for today"}
	saySummary     = talk.Say{Zh: "复习了 %d 个，忘了 %d 个，用了 %d 分钟。", En: "%d reviewed, %d forgotten, in %d min."}
	sayLaterToday  = talk.Say{Zh: "下一个在 %s 再来。", En: "The next one comes back at %s."}
	sayComesItself = talk.Say{Zh: "页面会自己接着出题。", En: "This page goes on by itself."}
	sayToToday     = talk.Say{Zh: "回到今天", En: "To today"}

	sayElsewhere = talk.Say{Zh: "刚才那个已经在别处复习过了，没有重复计数。",
		En: "That one was reviewed elsewhere meanwhile, and is not counted twice."}
	sayNotDue      = talk.Say{Zh: "刚才那个还没到期。", En: "That one is not due yet."}
	sayGone        = talk.Say{Zh: "刚才那个已经不在了。", En: "That one is not there any more."}
	sayUnplanned   = talk.Say{Zh: "刚才那个不在复习计划里了。", En: "That one is not among those that are reviewed any more."}
	sayBackAgain   = talk.Say{Zh: "已撤销，再来一次。", En: "Taken back; once more."}
	sayRestsNow    = talk.Say{Zh: "它暂停了，直到你在它的页面上取消。", En: "It rests until you wake it on its page."}
	sayTomorrowNow = talk.Say{Zh: "它明天再来。", En: "It comes again tomorrow."}
	sayLeechNow    = talk.Say{Zh: "刚才那个总是忘记：改写、拆分或暂停它会更好。",
		En: "That one is forgotten again and again: better write it anew, split it, or let it rest."}
	sayNotUndone = talk.Say{Zh: "这一步已经不能撤销了。", En: "That step cannot be taken back any more."}
	sayNoGrade   = talk.Say{Zh: "请选一个评分。", En: "Choose a grade."}
)

// Texts of points.
var (
	sayAllStates     = talk.Say{Zh: "全部", En: "All"}
	sayDue           = talk.Say{Zh: "到期", En: "Due"}
	sayLearning      = talk.Say{Zh: "学习中", En: "Being learned"}
	sayNew           = talk.Say{Zh: "新", En: "New"}
	sayDrafts        = talk.Say{Zh: "草稿", En: "Drafts"}
	sayLeeches       = talk.Say{Zh: "总是忘记的", En: "Forgotten again and again"}
	sayTrash         = talk.Say{Zh: "回收站", En: "Trash"}
	saySearch        = talk.Say{Zh: "搜索", En: "Search"}
	saySearchHint    = talk.Say{Zh: "问题、答案、标签里的字词", En: "Words of question, answer or tags"}
	sayFind          = talk.Say{Zh: "查找", En: "Find"}
	sayState         = talk.Say{Zh: "状态", En: "State"}
	sayNoneFound     = talk.Say{Zh: "没有找到", En: "Nothing found"}
	sayNoneFoundHint = talk.Say{Zh: "换个说法，或者少选一些条件。", En: "Try other words, or fewer conditions."}
	sayShowAll       = talk.Say{Zh: "显示全部", En: "Show all"}
	sayBestFirst     = talk.Say{Zh: "最相符的在前面，最多 50 个。", En: "The best come first, 50 at most."}
	sayPointCount    = talk.Say{Zh: "知识点 %s 个", En: "Points: %s"}
	sayNoTags        = talk.Say{Zh: "还没有标签", En: "No tags yet"}
	sayNoTagsHint    = talk.Say{Zh: "在知识点的页面上给它加标签，这里就会列出来。",
		En: "Give a point tags on its page, and they are listed here."}

	sayDraft      = talk.Say{Zh: "草稿", En: "draft"}
	sayNotAsked   = talk.Say{Zh: "不复习", En: "not reviewed"}
	sayResting    = talk.Say{Zh: "暂停中", En: "resting"}
	sayNewOn      = talk.Say{Zh: "新，%s 再来", En: "new, from %s"}
	sayLearningAt = talk.Say{Zh: "学习中，%s 再来", En: "being learned, again at %s"}
	sayDueNow     = talk.Say{Zh: "到期", En: "due"}
	sayDueOn      = talk.Say{Zh: "%s 到期", En: "due %s"}
	sayDone       = talk.Say{Zh: "课程已完成", En: "course completed"}

	sayPoint        = talk.Say{Zh: "知识点", En: "Point"}
	sayAllPoints    = talk.Say{Zh: "全部知识点", En: "All points"}
	sayOrNewDeck    = talk.Say{Zh: "或者放进新牌组", En: "Or a new deck"}
	sayTagsHint     = talk.Say{Zh: "用逗号分开。", En: "With commas between them."}
	sayMarkdownHint = talk.Say{Zh: "可以用 Markdown：**粗体**、`代码`、列表、表格。",
		En: "Markdown works: **bold**, `code`, lists, tables."}
	sayInPlan       = talk.Say{Zh: "加入复习", En: "Review it"}
	sayLetRest      = talk.Say{Zh: "暂停，先不出现", En: "Let it rest for now"}
	sayAddMore      = talk.Say{Zh: "添加，再写一个", En: "Add, and write another"}
	sayAddOne       = talk.Say{Zh: "添加", En: "Add"}
	sayAdded        = talk.Say{Zh: "已添加。下一个：", En: "Added. The next one:"}
	sayPreview      = talk.Say{Zh: "预览", En: "Preview"}
	sayPreviewHint  = talk.Say{Zh: "你写的内容会显示在这里。", En: "What you write is shown here."}
	sayNeedQuestion = talk.Say{Zh: "请写问题。", En: "Write a question."}
	sayNeedAnswer   = talk.Say{Zh: "请写答案。", En: "Write an answer."}
	sayTextTooLong  = talk.Say{Zh: "问题和答案各最多 %d KiB，请拆成几个知识点。",
		En: "Question and answer have %d KiB each at most; make several points of it."}
	sayIsDraft = talk.Say{Zh: "这是草稿，确认之前不会出现在复习里。",
		En: "This is a draft; it is not reviewed before you confirm it."}
	sayConfirm       = talk.Say{Zh: "确认", En: "Confirm"}
	sayWhenAgain     = talk.Say{Zh: "什么时候再来", En: "When it comes again"}
	sayReviewed      = talk.Say{Zh: "复习", En: "Reviewed"}
	sayForgotten     = talk.Say{Zh: "忘记", En: "Forgotten"}
	sayTimes         = talk.Say{Zh: "%d 次", En: "%d times"}
	sayStability     = talk.Say{Zh: "记忆稳定度", En: "Stability"}
	sayStabilityDays = talk.Say{Zh: "约 %.1f 天后会开始忘记", En: "begins to fade after about %.1f days"}
	sayMade          = talk.Say{Zh: "创建", En: "Made"}
	saySource        = talk.Say{Zh: "来源", En: "Source"}
	sayNewDate       = talk.Say{Zh: "换一个日期", En: "Another date"}
	saySetDate       = talk.Say{Zh: "改期", En: "Move it"}
	sayBadDay        = talk.Say{Zh: "日期要在今天（%s）和一百年之间。",
		En: "The date must lie between today (%s) and a hundred years from now."}
	sayDelete     = talk.Say{Zh: "删除", En: "Delete"}
	sayDeleteHint = talk.Say{Zh: "它会在回收站里留 30 天。", En: "It stays in the trash for 30 days."}
	sayDeleted    = talk.Say{Zh: "已放进回收站。", En: "It is in the trash."}
	sayRestore    = talk.Say{Zh: "恢复", En: "Restore"}
	sayRestored   = talk.Say{Zh: "已恢复。", En: "It is back."}
	sayHistory    = talk.Say{Zh: "复习记录", En: "History of reviews"}
	sayNoHistory  = talk.Say{Zh: "还没有复习过。", En: "It was not reviewed yet."}
	sayWasUndone  = talk.Say{Zh: "撤销了一次", En: "a review was taken back"}
	sayWasMoved   = talk.Say{Zh: "改期", En: "moved to another date"}
)

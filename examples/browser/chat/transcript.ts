/**
 * The conversation on the page, which follows its end while the reader is there.
 *
 * @module
 */
import { AnswerView } from "./answer_view.ts";
import type { Chat } from "./conversation.ts";
import { questionView } from "./question_view.ts";

export interface TranscriptActions {
  /** Answers the question before this turn again. */
  readonly regenerate: (turn: number) => void;
  readonly resend: (turn: number, text: string) => void;
}

/** How near its end the reader has to be, in pixels. */
const NEAR = 120;

export class Transcript {
  readonly #list: HTMLOListElement;
  /** What scrolls. */
  readonly #scroller: HTMLElement;
  readonly #actions: TranscriptActions;
  #answers: (AnswerView | undefined)[] = [];
  #isFollowing = true;

  constructor(list: HTMLOListElement, scroller: HTMLElement, actions: TranscriptActions) {
    this.#list = list;
    this.#scroller = scroller;
    this.#actions = actions;
    scroller.addEventListener("scroll", () => {
      const { scrollHeight, scrollTop, clientHeight } = scroller;
      this.#isFollowing = scrollHeight - scrollTop - clientHeight < NEAR;
    });
    new ResizeObserver(() => this.#follow()).observe(list);
  }

  /** Shows all turns of a chat, its end in sight. */
  show({ turns }: Chat): void {
    this.#answers = [];
    const rows = turns.map((turn, i) => {
      if (turn.role === "user") {
        return questionView(turn, (text) => this.#actions.resend(i, text));
      }
      const view = new AnswerView(turn, { regenerate: () => this.#actions.regenerate(i) });
      this.#answers[i] = view;
      return view.element;
    });
    this.#list.replaceChildren(...rows);
    this.#isFollowing = true;
    this.#follow();
  }

  /** Shows what has come of the last turn. */
  update(): void {
    this.#answers.at(-1)?.update();
  }

  #follow(): void {
    // The scroller has other views, in which the conversation takes no room.
    const isShown = this.#list.offsetParent !== null;
    if (isShown && this.#isFollowing) this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }
}

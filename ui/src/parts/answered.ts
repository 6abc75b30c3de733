// SPDX-License-Identifier: Apache-2.0
/** Answers beside what they are to: what is asked for may be something else by the time they come. */

/** An answer, and what was asked, as JSON. */
export interface Answered<Answer> {
  readonly asked: string;
  readonly answer: Answer;
}

/** The answer, where it is to what is asked for now; else null. */
export function answerTo<Answer>(asked: string, answered: Answered<Answer> | null): Answer | null {
  return answered?.asked === asked ? answered.answer : null;
}

/** A refusal as it stands for what is asked for now: to force is offered for what was refused, and for nothing else. */
export function standing<Problem extends { readonly canForce: boolean }>(
  problem: Problem | null,
  refused: string | null,
  asked: string,
): Problem | null {
  return problem?.canForce === true && refused !== asked ? null : problem;
}

// SPDX-License-Identifier: Apache-2.0
/** A problem, the same on all screens: what happened, what did not change, what to do. */

import { AlertActionLink, Content, List, ListItem } from "@patternfly/react-core";
import { isWithin, type ApiProblem } from "../api/problem";
import { sentence } from "../format/sentence";
import { text } from "../text";
import type { News } from "./known";
import { Alert } from "./patternfly";

const SHOWN = 5;

interface Words {
  readonly title: string;
  readonly body?: string;
  readonly remedy: string;
}

/** Text of a problem. The detail of a 500 belongs to the service's log and is not shown. */
export function wordsOf(problem: ApiProblem): Words {
  const words = text.problems;
  // The remedy says the time.
  const detail = sentence(problem.message.replace(/; try again in \d+ s$/, ""));
  switch (problem.status) {
    case -1:
      return words.console;
    case 0:
      return words.connection;
    case 401:
      return words.session;
    case 403:
      return { ...words.forbidden, body: detail };
    case 404:
      return { ...words.notFound, body: detail };
    case 409:
      return { ...words.conflict, body: detail };
    case 412:
      return words.changed;
    case 422:
      return { ...words.invalid, body: problem.fields.size > 0 ? undefined : detail };
    case 429:
      return { ...words.tooMany, body: detail, remedy: words.tooMany.remedy(problem.retryAfter) };
    case 503:
      return { ...words.unavailable, body: detail };
    default:
      return problem.status < 500 ? { ...words.conflict, body: detail } : words.internal;
  }
}

interface Props {
  readonly problem: ApiProblem;
  /** A failed read has changed nothing, so no text says so. */
  readonly reading?: boolean;
  readonly onRetry?: () => void;
  /** Fields whose problems the form shows. */
  readonly knownFields?: readonly string[];
  /** Facts that have changed meanwhile, if that is the problem. */
  readonly news?: readonly News[];
}

export function ProblemAlert({ problem, reading = false, onRetry, knownFields = [], news = [] }: Props) {
  const words = wordsOf(problem);
  const effect = problem.effect === "nothing-changed" ? text.problems.nothingChanged : text.problems.unknown;
  const retry = onRetry ? <AlertActionLink onClick={onRetry}>{text.problems.tryAgain}</AlertActionLink> : undefined;
  const others = [...problem.fields].filter(([field]) => !knownFields.some((known) => isWithin(field, known)));
  const more = problem.blocking.length - SHOWN;
  const hasNews = problem.status === 412 && news.length > 0;
  return (
    <Alert variant="danger" isInline component="p" title={words.title} actionLinks={retry} className="zv-problem" role="alert">
      <Content component="p">
        {words.body} {reading ? null : effect} {hasNews ? text.problems.changed.remedyOverNews : words.remedy}
      </Content>
      {hasNews && (
        <>
          <Content component="p">{text.problems.nowIs}</Content>
          <List>
            {news.map(({ name, now, before }) => (
              <ListItem key={name}>{text.problems.news(name, now, before)}</ListItem>
            ))}
          </List>
        </>
      )}
      {others.length > 0 && (
        <List isPlain>
          {others.map(([field, reason]) => (
            <ListItem key={field}>
              {field}: {reason}
            </ListItem>
          ))}
        </List>
      )}
      {problem.blocking.length > 0 && (
        <>
          <Content component="p">{text.problems.inTheWay}</Content>
          <List>
            {problem.blocking.slice(0, SHOWN).map((blocker) => (
              <ListItem key={blocker}>{blocker}</ListItem>
            ))}
            {more > 0 && <ListItem>{text.problems.moreInTheWay(more)}</ListItem>}
          </List>
        </>
      )}
    </Alert>
  );
}
